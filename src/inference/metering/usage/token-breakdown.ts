// OpenAI and those who follow it state a whole and, within it, its parts. These turn that into meters that do not overlap.

import type { TokenMeter } from "../../../base/usage-meters.ts";
import { clampToWhole, type ReadNotes } from "./read-numbers.ts";

type Tokens = Partial<Record<TokenMeter, number>>;

export interface InputBreakdown {
  /** All input, with everything below inside. */
  readonly total: number;
  readonly cached: number;
  readonly written?: number;
  readonly audio?: number;
  readonly image?: number;
  /** How much of the audio came from the cache, where that is said. */
  readonly cachedAudio?: number;
}

/**
 * Where nobody says what was in the cache, text is taken to be cached before audio and images: they come later in a
 * prompt more often than not, and a cache holds its beginning.
 */
export function splitInput(notes: ReadNotes, breakdown: InputBreakdown): Tokens {
  const cached = clampToWhole(notes, breakdown.cached, breakdown.total);
  const written = clampToWhole(notes, breakdown.written ?? 0, breakdown.total - cached);
  const uncached = breakdown.total - cached - written;
  const audio = clampToWhole(notes, breakdown.audio ?? 0, breakdown.total);
  const audioBeyondUncached = Math.max(0, audio - uncached);
  const cachedAudio = Math.min(
    cached,
    audio,
    Math.max(breakdown.cachedAudio ?? 0, audioBeyondUncached),
  );
  const uncachedAudio = Math.min(uncached, audio - cachedAudio);
  const uncachedImage = Math.min(breakdown.image ?? 0, uncached - uncachedAudio);
  return {
    input: uncached - uncachedAudio - uncachedImage,
    input_audio: uncachedAudio,
    input_image: uncachedImage,
    cache_read: cached - cachedAudio,
    cache_read_audio: cachedAudio,
    cache_write_5m: written,
  };
}

export interface OutputBreakdown {
  /** All output, with everything below inside. */
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
