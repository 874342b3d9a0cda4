export type GeminiOperation = "generateContent" | "streamGenerateContent";

/** The path below the provider's base URL. A name with a slash (`tunedModels/x`) includes its own collection. */
export function operationPath(model: string, operation: GeminiOperation): string {
  const name = model.includes("/") ? model : `models/${encodeURIComponent(model)}`;
  return `/${name}:${operation}${operation === "streamGenerateContent" ? "?alt=sse" : ""}`;
}
