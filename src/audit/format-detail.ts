/** The detail of an audit entry as one line: `limit usd: 5; limit window: day`. */
export function formatAuditDetail(detail: Readonly<Record<string, unknown>>): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${valueText(value)}`)
    .join("; ");
}

/** Settings such as the policy of a key are stored as JSON. */
function valueText(value: unknown): string {
  const text = String(value);
  if (!text.startsWith("{")) return text;
  try {
    return Object.entries(JSON.parse(text))
      .map(([name, part]) => `${name} ${String(part)}`)
      .join(", ");
  } catch {
    return text;
  }
}
