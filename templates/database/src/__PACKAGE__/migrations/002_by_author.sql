CREATE INDEX book_by_author ON book (author, year);
