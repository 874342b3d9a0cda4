/** Reads a body of at most `maxBytes`; returns undefined and cancels the stream if it is longer. */
export async function readBoundedBytes(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const decoder = new TextDecoder();

/** Reads a body of at most `maxBytes` as text; throws if it is longer. */
export async function readBoundedText(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<string> {
  const bytes = await readBoundedBytes(body, maxBytes);
  if (bytes === undefined) throw new Error(`response body is longer than ${maxBytes} bytes`);
  return decoder.decode(bytes);
}
