/** Bytes that are not a stream of the expected framing, or an event above the size limit. */
export class MalformedStream extends Error {
  override readonly name = "MalformedStream";
}
