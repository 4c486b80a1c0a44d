export const shown = (count) => `count ${count}`;
