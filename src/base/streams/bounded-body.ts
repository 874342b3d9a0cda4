// Reads a body that somebody else sends, and no more of it than it may have.

/** Undefined where there is more. The rest is not read, and the sender is told to stop. */
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

/** The same as text; throws where there is more. */
export async function readBoundedText(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<string> {
  const bytes = await readBoundedBytes(body, maxBytes);
  if (bytes === undefined) throw new Error(`an answer of more than ${maxBytes} bytes`);
  return decoder.decode(bytes);
}
