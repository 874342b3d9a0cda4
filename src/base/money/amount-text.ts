// Amounts of US dollars as people type them into forms.

/** A comma before three digits separates thousands: `1,000` is not a dollar. */
const THOUSANDS = /^-?\d{1,3}(,\d{3})+(\.\d*)?$/;
const DECIMAL_COMMA = /^(-?\d+),(\d{1,2})$/;

/**
 * `$1,000.50`, `US$20`, `20 USD` and `2,50` as the plain decimals that the parsers of amounts read. Other text stays as it
 * is, for them to reject.
 */
export function plainAmount(input: string): string {
  const text = input
    .trim()
    .replace(/^(?:US)?\$\s*/i, "")
    .replace(/(?:USD|\$)$/i, "")
    .trimEnd();
  return THOUSANDS.test(text) ? text.replaceAll(",", "") : text.replace(DECIMAL_COMMA, "$1.$2");
}
