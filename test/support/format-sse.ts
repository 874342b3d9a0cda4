/** The text of one event. Data of several lines becomes several `data:` lines. */
export function formatSse(message: { readonly event?: string; readonly data: string }): string {
  const head =
    message.event === undefined ? "" : `event: ${message.event.replaceAll(/[\r\n]/g, " ")}\n`;
  if (!/[\r\n]/.test(message.data)) return `${head}data: ${message.data}\n\n`;
  return `${head}data: ${message.data.split(/\r\n|\r|\n/).join("\ndata: ")}\n\n`;
}
