// Where the operations of a model are, below the provider's address.

export type Operation = "generateContent" | "streamGenerateContent" | "countTokens";

/** A name with a slash (`tunedModels/x`, `publishers/google/models/x`) says its own collection. */
export function operationPath(model: string, operation: Operation): string {
  const name = model.includes("/") ? model : `models/${encodeURIComponent(model)}`;
  return `/${name}:${operation}${operation === "streamGenerateContent" ? "?alt=sse" : ""}`;
}
