// Amounts of US dollars as people type them into forms.

const THOUSANDS = /^-?\d{1,3}(,\d{3})+(\.\d*)?$/;

/** `$1,000.50`, `US$20` and `20 USD` as the plain decimals that the parsers of amounts read; other text stays as it is. */
export function plainAmount(input: string): string {
  const text = input
    .trim()
    .replace(/^(?:US)?\$\s*/i, "")
    .replace(/\s*(?:USD|\$)$/i, "");
  return THOUSANDS.test(text) ? text.replaceAll(",", "") : text;
}
