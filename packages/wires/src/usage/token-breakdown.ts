// OpenAI and compatible providers report a total and its parts. These functions convert them to disjoint meters.

import { clampToWhole, type ReadNotes } from "./read-numbers.ts";
import type { TokenMeter } from "./usage-meters.ts";

type Tokens = Partial<Record<TokenMeter, number>>;

export interface InputBreakdown {
  /** All input, including everything below. */
  readonly total: number;
  readonly cached: number;
  readonly written?: number;
  /** The part of `written` that is kept for longer, at a higher price. */
  readonly writtenLong?: number;
  readonly audio?: number;
  readonly image?: number;
  /** Cached part of the audio, if reported. */
  readonly cachedAudio?: number;
  /** The same of images, 0 if it is not reported; absent where cached images have the price of cached text. */
  readonly cachedImage?: number;
}

/**
 * If the reply does not say what was cached, text counts as cached before audio and images: a cache holds the start of the
 * prompt, and media usually come later.
 */
export function splitInput(notes: ReadNotes, breakdown: InputBreakdown): Tokens {
  const cached = clampToWhole(notes, breakdown.cached, breakdown.total);
  const written = clampToWhole(notes, breakdown.written ?? 0, breakdown.total - cached);
  const writtenLong = clampToWhole(notes, breakdown.writtenLong ?? 0, written);
  const uncached = breakdown.total - cached - written;
  const audio = clampToWhole(notes, breakdown.audio ?? 0, breakdown.total);
  const audioBeyondUncached = Math.max(0, audio - uncached);
  const cachedAudio = Math.min(
    cached,
    audio,
    Math.max(breakdown.cachedAudio ?? 0, audioBeyondUncached),
  );
  const uncachedAudio = Math.min(uncached, audio - cachedAudio);
  const image = breakdown.image ?? 0;
  const cachedImage =
    breakdown.cachedImage === undefined
      ? 0
      : Math.min(
          cached - cachedAudio,
          image,
          Math.max(breakdown.cachedImage, image - (uncached - uncachedAudio)),
        );
  const uncachedImage = Math.min(image - cachedImage, uncached - uncachedAudio);
  return {
    input: uncached - uncachedAudio - uncachedImage,
    input_audio: uncachedAudio,
    input_image: uncachedImage,
    cache_read: cached - cachedAudio - cachedImage,
    cache_read_audio: cachedAudio,
    cache_read_image: cachedImage,
    cache_write_5m: written - writtenLong,
    cache_write_1h: writtenLong,
  };
}

export interface OutputBreakdown {
  /** All output, including everything below. */
  readonly total: number;
  readonly reasoning: number;
  readonly audio?: number;
  readonly image?: number;
}

export function splitOutput(notes: ReadNotes, breakdown: OutputBreakdown): Tokens {
  const reasoning = clampToWhole(notes, breakdown.reasoning, breakdown.total);
  const audio = clampToWhole(notes, breakdown.audio ?? 0, breakdown.total - reasoning);
  const image = clampToWhole(notes, breakdown.image ?? 0, breakdown.total - reasoning - audio);
  return {
    output: breakdown.total - reasoning - audio - image,
    reasoning,
    output_audio: audio,
    output_image: image,
  };
}
