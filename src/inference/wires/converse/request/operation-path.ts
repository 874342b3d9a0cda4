// Where the operations of a model are, below the provider's address. A model's name may be an ARN with slashes and colons.

export type Operation = "converse" | "converse-stream" | "count-tokens";

export function operationPath(model: string, operation: Operation): string {
  return `/model/${encodeURIComponent(model)}/${operation}`;
}
