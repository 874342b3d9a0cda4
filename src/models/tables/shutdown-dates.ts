// The days on which providers shut models down, as they have announced them. The models are listed until they are retired.

interface Shutdowns {
  readonly provider: string;
  /** Read on 2026-11-29, as a stored copy. */
  readonly source: string;
  readonly dates: readonly (readonly [date: string, models: RegExp])[];
}

const SHUTDOWNS: readonly Shutdowns[] = [
  {
    provider: "openai",
    source: "https://developers.openai.com/api/docs/deprecations",
    dates: [
      ["2026-12-01", /^(gpt-image-1\.5|gpt-image-1-mini)$/],
      ["2026-12-11", /^(gpt-5|gpt-5-mini|gpt-5-nano|gpt-5-pro|o3|o3-pro)$/],
      ["2027-01-06", /^(tts-1|tts-1-hd|gpt-4o-mini-tts)$/],
      ["2027-01-14", /^(gpt-4o|gpt-4o-mini|gpt-4\.1|gpt-4\.1-mini)$/],
      ["2027-02-26", /^(whisper-1|gpt-4o-transcribe|gpt-4o-mini-transcribe)$/],
      ["2027-04-01", /^(gpt-5\.1|gpt-5\.3-codex|gpt-5\.4-nano)$/],
    ],
  },
];

export function shutdownDateOf(provider: string, name: string): string | null {
  for (const { provider: of, dates } of SHUTDOWNS)
    if (of === provider) return dates.find(([, models]) => models.test(name))?.[0] ?? null;
  return null;
}
