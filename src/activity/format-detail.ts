import { nanoFromUsd } from "../base/money/money.ts";
import { formatDateTime, formatUsdExact } from "../base/text/format.ts";

const MONEY_FIELD = /^usd$|_usd$|^(?:promo|paid|owed)_(?:before|after)$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** The detail of an audit entry as one line: `limit: $5.00; limit window: day`. */
export function formatAuditDetail(
  detail: Readonly<Record<string, unknown>>,
  timeZone?: string,
): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${labelOf(name)}: ${valueText(name, value, timeZone)}`)
    .join("; ");
}

function labelOf(name: string): string {
  return name === "usd" ? "amount" : name.replace(/_usd$/, "").replaceAll("_", " ");
}

/** Settings such as the policy of a key are stored as JSON. */
function valueText(name: string, value: unknown, timeZone: string | undefined): string {
  const text = Array.isArray(value) ? value.join(", ") : String(value);
  if (MONEY_FIELD.test(name)) return usdText(text);
  if (TIMESTAMP.test(text)) return formatDateTime(Date.parse(text), timeZone);
  if (!text.startsWith("{")) return text;
  try {
    return Object.entries(JSON.parse(text))
      .map(([part, partValue]) => `${labelOf(part)} ${valueText(part, partValue, timeZone)}`)
      .join(", ");
  } catch {
    return text;
  }
}

/** Text that is not an amount is returned unchanged. */
function usdText(text: string): string {
  const amount = nanoFromUsd(text);
  return amount === undefined ? text : formatUsdExact(amount);
}
