/** The detail of an audit entry as one line: `limit usd: 5; limit window: day`. */
export function formatAuditDetail(detail: Readonly<Record<string, unknown>>): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${String(value)}`)
    .join("; ");
}
