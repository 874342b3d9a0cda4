// Bedrock's inference profiles: a model's name with the geography that serves it, `eu.anthropic.claude-opus-4-8`. Newer models can
// only be called through a profile.

/** Profiles of a geography have one price, except in AWS GovCloud, whose prices no list has. */
const GEOGRAPHY = /^(us|eu|apac|jp|au|ca|in|global)\./;
const US = "us";
const GLOBAL = "global";

/** Models without on-demand throughput of their own. Source: AWS, "Supported Regions and models for inference profiles". */
const PROFILE_ONLY =
  /^(anthropic\.claude-|amazon\.nova-(premier|2)|deepseek\.r1|meta\.llama(3-[123]|4)|mistral\.pixtral|moonshotai\.kimi-k3|openai\.gpt-(5\.[6-9]|6)|writer\.palmyra-x|xai\.|zai\.glm-5\.3)/;
/** Claude from 4.5 has profiles of Japan and Australia instead of the one of Asia and the Pacific. */
const HAS_JAPAN_AND_AUSTRALIA = /claude-(?!3|(opus|sonnet)-4(-1)?-20)/;
const GEOGRAPHY_BY_REGION: readonly (readonly [RegExp, string, RegExp?])[] = [
  [/^us-gov-/, "us-gov"],
  [/^(us|ca)-/, US],
  [/^eu-/, "eu"],
  [/^ap-northeast-[13]$/, "jp", HAS_JAPAN_AND_AUSTRALIA],
  [/^ap-southeast-[24]$/, "au", HAS_JAPAN_AND_AUSTRALIA],
  [/^ap-/, "apac"],
  [/./, GLOBAL],
];
const REGION = /bedrock-runtime\.([a-z]{2}(?:-[a-z]+)+-\d)\./;

/** Other names under which the catalog may have the price of a model: profiles of all geographies but the global one cost the same. */
export function profileAlternatives(name: string): readonly string[] {
  const { geography, base } = splitProfile(name);
  if (geography === GLOBAL) return [base];
  return [`${US}.${base}`, base];
}

/** The name to send for a requested one: the model's own, in the requested geography. Without one, the region decides later. */
export function profileName(modelName: string, requestedName: string): string {
  const { base } = splitProfile(modelName);
  const { geography } = splitProfile(requestedName);
  if (geography !== undefined) return `${geography}.${base}`;
  return PROFILE_ONLY.test(base) ? base : modelName;
}

/** A name without a geography, for a model that needs one, with the geography of the region that is called. */
export function nameInRegion(name: string, baseUrl: string): string {
  if (!PROFILE_ONLY.test(name)) return name;
  const region = REGION.exec(baseUrl)?.[1] ?? "us-east-1";
  const geography = GEOGRAPHY_BY_REGION.find(
    ([regions, , models]) => regions.test(region) && (models?.test(name) ?? true),
  );
  return `${geography?.[1] ?? US}.${name}`;
}

function splitProfile(name: string): {
  readonly geography: string | undefined;
  readonly base: string;
} {
  const geography = GEOGRAPHY.exec(name)?.[1];
  return {
    geography,
    base: geography === undefined ? name : name.slice(geography.length + 1),
  };
}
