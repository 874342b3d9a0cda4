export type ConverseOperation = "converse" | "converse-stream";

/** The path below the provider's base URL. The model may be an ARN with slashes and colons. */
export function operationPath(model: string, operation: ConverseOperation): string {
  return `/model/${encodeURIComponent(model)}/${operation}`;
}
