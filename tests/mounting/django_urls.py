"""The pages of a Django project."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path


def home(request: HttpRequest) -> HttpResponse:
    return HttpResponse("home")


urlpatterns = [path("", home)]
