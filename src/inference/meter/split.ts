// OpenAI and those who follow it state a whole and, within it, its parts. These turn that into meters that do not overlap.

import type { TokenMeter } from "../../base/meters.ts";
import { within, type Tally } from "./tally.ts";

type Tokens = Partial<Record<TokenMeter, number>>;

export interface InputParts {
  /** All input, with everything below inside. */
  readonly all: number;
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
export function splitInput(tally: Tally, parts: InputParts): Tokens {
  const cached = within(tally, parts.cached, parts.all);
  const written = within(tally, parts.written ?? 0, parts.all - cached);
  const fresh = parts.all - cached - written;
  const audio = within(tally, parts.audio ?? 0, parts.all);
  const audioBeyondFresh = Math.max(0, audio - fresh);
  const cachedAudio = Math.min(cached, audio, Math.max(parts.cachedAudio ?? 0, audioBeyondFresh));
  const freshAudio = Math.min(fresh, audio - cachedAudio);
  const freshImage = Math.min(parts.image ?? 0, fresh - freshAudio);
  return {
    input: fresh - freshAudio - freshImage,
    input_audio: freshAudio,
    input_image: freshImage,
    cache_read: cached - cachedAudio,
    cache_read_audio: cachedAudio,
    cache_write_5m: written,
  };
}

export interface OutputParts {
  /** All output, with everything below inside. */
  readonly all: number;
  readonly reasoning: number;
  readonly audio?: number;
  readonly image?: number;
}

export function splitOutput(tally: Tally, parts: OutputParts): Tokens {
  const reasoning = within(tally, parts.reasoning, parts.all);
  const audio = within(tally, parts.audio ?? 0, parts.all - reasoning);
  const image = within(tally, parts.image ?? 0, parts.all - reasoning - audio);
  return {
    output: parts.all - reasoning - audio - image,
    reasoning,
    output_audio: audio,
    output_image: image,
  };
}
