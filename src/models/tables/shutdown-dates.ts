// The days on which providers shut models down, as they have announced them. From that day on a model is not offered, and the
// error of a call names its successor. Its prices are kept for old records.

export interface Shutdown {
  /** "2026-12-01". */
  readonly date: string;
  /** The id of the model that the provider recommends instead, or of a later one of that line. */
  readonly successor: string | undefined;
}

type Row = readonly [date: string, names: RegExp, successor?: string];

/** Read on 2026-11-29, as stored copies: the page of each provider, and the types of its SDK. */
export const SHUTDOWNS: ReadonlyMap<string, readonly Row[]> = new Map<string, readonly Row[]>(
  Object.entries({
    // https://developers.openai.com/api/docs/deprecations
    openai: [
      ["2024-09-13", /^gpt-3\.5-(0301|turbo-(0301|0613|16k))/, "gpt-6.1-terra"],
      ["2024-12-06", /^gpt-4-(1106-)?vision-preview$/, "gpt-6.1-sol"],
      ["2025-06-06", /^gpt-4-32k/, "gpt-6.1-sol"],
      ["2025-07-14", /^gpt-4\.5-preview/, "gpt-6.1-sol"],
      ["2025-07-28", /^o1-preview/, "gpt-6.1-sol"],
      ["2025-10-27", /^o1-mini/, "gpt-6.1-terra"],
      ["2026-02-12", /^codex-mini/, "gpt-6.1-terra"],
      ["2026-02-17", /^chatgpt-4o-latest$/, "gpt-6.1-sol"],
      ["2026-03-26", /^gpt-4-(0314|0125-preview|turbo-preview|turbo-0125-preview)$/, "gpt-5.6-sol"],
      ["2026-05-07", /^gpt-4o-(mini-)?audio/, "gpt-audio-1.5"],
      ["2026-05-12", /^dall-e-[23]$/, "gpt-image-2.6-sunburst"],
      ["2026-07-23", /^gpt-5(\.[12])?-codex(-max)?$/, "gpt-5.5"],
      ["2026-07-23", /^gpt-5\.1-codex-mini$/, "gpt-5.4-mini"],
      ["2026-07-23", /^gpt-5(\.1)?-chat-latest$/, "gpt-5.5"],
      ["2026-07-23", /^gpt-4o-(mini-)?search-preview/, "gpt-6-luna"],
      ["2026-07-23", /^o[34](-mini)?-deep-research/, "gpt-5.5-pro"],
      ["2026-07-23", /^gpt-audio-mini-2025-10-06$/, "gpt-audio-1.5"],
      ["2026-07-23", /^gpt-4o-mini-tts-2025-03-20$/],
      ["2026-08-10", /^gpt-5\.[23]-chat-latest$/, "gpt-5.5"],
      ["2026-09-28", /^(gpt-3\.5-turbo-(1106|instruct)|babbage-002|davinci-002)/, "gpt-5.6-terra"],
      ["2026-10-23", /^(gpt-3\.5-turbo(-0125)?|o4-mini(-2025-04-16|-high)?)$/, "gpt-5.6-terra"],
      ["2026-10-23", /^gpt-4(-0613|-1106-preview|-turbo|-turbo-2024-04-09)?$/, "gpt-5.6-sol"],
      ["2026-10-23", /^(gpt-4o-2024-05-13|o1(-pro)?(-\d.*)?|o3-mini.*)$/, "gpt-5.6-sol"],
      ["2026-10-23", /^gpt-4\.1-nano/, "gpt-5.6-luna"],
      ["2026-10-23", /^gpt-image-1$/, "gpt-image-2.6-sunburst"],
      [
        "2026-12-01",
        /^(gpt-image-1\.5|gpt-image-1-mini|chatgpt-image-latest)/,
        "gpt-image-2.6-sunburst",
      ],
      ["2026-12-11", /^(gpt-5|gpt-5-pro|o3|o3-pro)(-\d.*)?$/, "gpt-6.1-sol"],
      ["2026-12-11", /^gpt-5-mini/, "gpt-6.1-terra"],
      ["2026-12-11", /^gpt-5-nano/, "gpt-6-luna"],
      ["2027-01-06", /^(tts-1|tts-1-hd|gpt-4o-mini-tts.*)$/],
      ["2027-01-14", /^(gpt-4o|gpt-4o-mini|gpt-4\.1|gpt-4\.1-mini)(-\d.*)?$/, "gpt-6-luna"],
      ["2027-01-20", /^gpt-audio(-2025-08-28|-mini.*)?$/, "gpt-audio-1.5"],
      ["2027-02-26", /^(whisper-1|gpt-4o-(mini-)?transcribe.*)$/, "gpt-transcribe"],
      ["2027-04-01", /^gpt-5\.1(-\d.*)?$/, "gpt-6.1-sol"],
      ["2027-04-01", /^gpt-5\.3-codex$/, "gpt-6.1-sol"],
      ["2027-04-01", /^gpt-5\.4-nano/, "gpt-6-luna"],
    ],
    // https://platform.claude.com/docs/en/about-claude/model-deprecations
    anthropic: [
      ["2025-07-21", /^claude-(2|v2|3-sonnet)/, "claude-sonnet-5-5"],
      ["2025-10-28", /^claude-3-5-sonnet/, "claude-sonnet-5-5"],
      ["2026-01-05", /^claude-3-opus/, "claude-opus-5-5"],
      ["2026-02-19", /^claude-3-7-sonnet/, "claude-sonnet-5-5"],
      ["2026-02-19", /^claude-3-5-haiku/, "claude-haiku-5-5"],
      ["2026-04-20", /^claude-3-haiku/, "claude-haiku-5-5"],
      ["2026-06-15", /^claude-opus-4(-0|-20250514)?$/, "claude-opus-5-5"],
      ["2026-06-15", /^claude-sonnet-4(-0|-20250514)?$/, "claude-sonnet-5-5"],
      ["2026-08-05", /^claude-opus-4-1/, "claude-opus-5-5"],
      ["2026-11-30", /^claude-sonnet-4-5/, "claude-sonnet-5-5"],
    ],
    // https://ai.google.dev/gemini-api/docs/deprecations
    google: [
      ["2026-02-17", /^gemini-2\.5-flash-preview-09-2025$/, "gemini-3.5-flash-lite"],
      ["2026-03-09", /^gemini-3-pro-(text-)?preview$/, "gemini-3.1-pro-preview"],
      ["2026-06-01", /^gemini-2\.0-flash/, "gemini-3.5-flash-lite"],
      ["2026-06-25", /^gemini-3\.1-flash-image-preview$/, "gemini-3.1-flash-image"],
      ["2026-06-25", /^gemini-3-pro-image-preview$/, "gemini-3-pro-image"],
      ["2026-08-17", /^imagen-/, "gemini-3-pro-image"],
      ["2026-12-01", /^gemini-2\.5-pro$/, "gemini-3.8-flash"],
      ["2026-12-01", /^gemini-2\.5-flash(-latest)?$/, "gemini-3.5-flash-lite"],
    ],
    // https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/model-versions
    vertex: [
      ["2026-10-20", /^gemini-2\.5-pro$/, "gemini-3.5-flash"],
      ["2026-10-20", /^gemini-2\.5-flash(-latest|-preview-09-2025)?$/, "gemini-3.5-flash-lite"],
      ["2026-10-20", /^gemini-2\.5-flash-lite$/, "gemini-3.1-flash-lite"],
    ],
    // https://docs.x.ai/developers/migration/may-15-retirement
    xai: [["2026-05-15", /^grok-(3|4-(0709|fast.*|1-fast.*)|code-fast.*)$/, "grok-4.3"]],
  }),
);

export function shutdownOf(provider: string, name: string): Shutdown | undefined {
  const row = SHUTDOWNS.get(provider)?.find(([, names]) => names.test(name));
  if (row === undefined) return undefined;
  const [date, , successor] = row;
  return { date, successor: successor && `${provider}/${successor}` };
}

/** The shutdown, if it was on this day or before. */
export function shutdownBefore(day: string, provider: string, name: string): Shutdown | undefined {
  const shutdown = shutdownOf(provider, name);
  return shutdown !== undefined && shutdown.date <= day ? shutdown : undefined;
}
