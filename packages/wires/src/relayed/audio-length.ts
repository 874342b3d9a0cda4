// What readers of recordings share: the length that they return, and that of an Opus packet, which several containers have.

export interface AudioLength {
  /** No decoder finds more audio in the file. */
  readonly secondsMax: number;
  /** Set if the length follows from the samples of the file. */
  readonly seconds?: number;
}

/** An Opus packet is never longer, whatever its first byte says. */
export const OPUS_PACKET_SECONDS_MAX = 0.12;

/** RFC 6716, section 3.1. */
export function opusSeconds(toc = 0, count = 0): number {
  const config = toc >> 3;
  const frameMs =
    config < 12
      ? ([10, 20, 40, 60][config % 4] ?? 60)
      : config < 16
        ? ([10, 20][config % 2] ?? 20)
        : ([2.5, 5, 10, 20][config % 4] ?? 20);
  const frames = [1, 2, 2, count & 0x3f][toc & 3] ?? 1;
  return Math.min(OPUS_PACKET_SECONDS_MAX, (frameMs * frames) / 1_000);
}
