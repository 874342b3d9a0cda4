import type { UsageReport } from "../../canonical/canonical-reply.ts";
import type { JsonObject } from "../../json-fields.ts";
import { sumTokens } from "../../usage/usage-meters.ts";

/** In this API the prompt's count includes cached tokens, and the candidates' count excludes thoughts. */
export function writeUsage({ usage, extras }: UsageReport): JsonObject {
  const text = sumTokens(usage, "input", "cache_read", "cache_write_5m", "cache_write_1h");
  const audio = sumTokens(usage, "input_audio", "cache_read_audio");
  const image = sumTokens(usage, "input_image", "cache_read_image");
  const prompt = text + audio + image;
  const cached = sumTokens(usage, "cache_read", "cache_read_audio", "cache_read_image");
  const outputAudio = sumTokens(usage, "output_audio");
  const outputImage = sumTokens(usage, "output_image");
  const candidates = sumTokens(usage, "output") + outputAudio + outputImage;
  const thoughts = sumTokens(usage, "reasoning");
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: candidates,
    totalTokenCount: prompt + candidates + thoughts,
    cachedContentTokenCount: cached || undefined,
    thoughtsTokenCount: thoughts || undefined,
    promptTokensDetails: details({ TEXT: text, AUDIO: audio, IMAGE: image }),
    cacheTokensDetails: usage.tokens.cache_read_audio
      ? details({
          TEXT: sumTokens(usage, "cache_read"),
          AUDIO: sumTokens(usage, "cache_read_audio"),
        })
      : undefined,
    candidatesTokensDetails:
      outputAudio + outputImage > 0
        ? details({ TEXT: sumTokens(usage, "output"), AUDIO: outputAudio, IMAGE: outputImage })
        : undefined,
    serviceTier: tierOf(usage.serviceTier),
    ...extras,
  };
}

function tierOf(tier: string | undefined): string | undefined {
  return tier === "default" ? "standard" : tier;
}

function details(counts: Readonly<Record<string, number>>): readonly JsonObject[] {
  return Object.entries(counts).flatMap(([modality, tokenCount]) =>
    tokenCount > 0 ? [{ modality, tokenCount }] : [],
  );
}
