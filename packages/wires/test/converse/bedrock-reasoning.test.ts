// Each chat model of Bedrock gets a requested effort in the field of its family. Models without a known field answer without
// it, and it is listed as a loss; no model is refused for an effort.

import { describe, expect, test } from "bun:test";
import { builtInModels } from "../../../../src/models/catalog.ts";
import { abilitiesOf } from "../../../../src/models/model-abilities.ts";
import type { CanonicalRequest, Reasoning } from "../../src/canonical/canonical-request.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";

const models = builtInModels().filter(
  ({ provider, kind }) => provider === "bedrock" && kind === "chat",
);
type BedrockModel = (typeof models)[number];

/** What the effort "high" becomes, by family. */
const FAMILIES: readonly (readonly [names: RegExp, fields: object])[] = [
  [
    /claude-(opus-4-[6-8]|sonnet-4-6|(opus|sonnet|haiku|fable|mythos)-5)/,
    { output_config: { effort: "high" } },
  ],
  [
    /claude-(3-7|opus-4-([15]|2025)|(sonnet|haiku)-4-[52])/,
    { thinking: { type: "enabled", budget_tokens: 7_999 } },
  ],
  [/nova-2/, { reasoningConfig: { type: "enabled", maxReasoningEffort: "medium" } }],
  [/gpt-oss/, { reasoning_effort: "high" }],
  [/openai\.gpt-\d/, { reasoning: { effort: "high" } }],
  [/deepseek\.v3/, { reasoning_config: "high" }],
  [/kimi-k2\.5|glm-4\.7|glm-5$/, { reasoning_config: "high" }],
];
const WITHOUT_FIELD =
  /deepseek\.r1|kimi-k3|glm-5\.3|minimax|magistral|qwen3-(32b|235b)|nemotron|gemma-4|xai\.grok/;

function write({ id, name, ...model }: BedrockModel, request: Partial<CanonicalRequest>) {
  const { body, losses } = converseWire.writeRequest(
    {
      model: id,
      turns: [{ role: "user", parts: [{ type: "text", text: "Hello." }] }],
      maxOutputTokens: 8_000,
      ...request,
    },
    { provider: "bedrock", model: name, abilities: abilitiesOf({ id, name, ...model }) },
  );
  return { body, fields: body["additionalModelRequestFields"] ?? {}, losses };
}

function find(name: string): BedrockModel {
  const model = models.find((one) => one.name === name);
  if (model === undefined) throw new Error(`no model ${name}`);
  return model;
}

describe("an effort", () => {
  for (const [names, fields] of FAMILIES)
    test(`is sent to models like ${names.source}`, () => {
      const family = models.filter(({ name }) => names.test(name));
      expect(family.length).toBeGreaterThan(0);
      for (const model of family) {
        const written = write(model, { reasoning: { effort: "high" } });
        expect({ name: model.name, ...written.fields }).toMatchObject({
          name: model.name,
          ...fields,
        });
        expect(written.losses.filter(({ tolerated }) => tolerated !== true)).toEqual([]);
      }
    });

  test("is dropped as a hint for models whose field is not known", () => {
    const others = models.filter(({ name }) => WITHOUT_FIELD.test(name));
    expect(others.length).toBeGreaterThan(10);
    for (const model of others) {
      const { fields, losses } = write(model, { reasoning: { effort: "high" } });
      expect([model.name, fields, losses.map(({ path, hint }) => [path, hint])]).toEqual([
        model.name,
        {},
        [["reasoning", true]],
      ]);
    }
  });

  test("is in one of both lists for every model that reasons", () => {
    const unknown = models.filter(
      ({ name, supported }) =>
        supported.includes("reasoning") &&
        !WITHOUT_FIELD.test(name) &&
        !FAMILIES.some(([names]) => names.test(name)),
    );
    expect(unknown.map(({ name }) => name)).toEqual([]);
  });

  test.each<readonly [name: string, reasoning: Reasoning, fields: object]>([
    ["us.openai.gpt-6-sol", { effort: "none" }, { reasoning: { effort: "none" } }],
    ["us.openai.gpt-6-astra", { effort: "none" }, { reasoning: { effort: "low" } }],
    ["openai.gpt-5.5", { effort: "max" }, { reasoning: { effort: "xhigh" } }],
    ["us.openai.gpt-5.6-sol", { budgetTokens: 4_000 }, { reasoning: { effort: "low" } }],
    ["zai.glm-5", { effort: "low" }, { reasoning_config: "high" }],
    ["zai.glm-5", { mode: "off" }, {}],
    ["zai.glm-5", { mode: "adaptive" }, { reasoning_config: "high" }],
    ["deepseek.v3.2", { effort: "minimal" }, { reasoning_config: "low" }],
    ["deepseek.v3.2", { effort: "none" }, {}],
  ])("of %s: %j becomes %j", (name, reasoning, fields) => {
    expect(write(find(name), { reasoning }).fields).toEqual(fields);
  });
});

test("earlier reasoning is not sent to Kimi K3, which fails with it", () => {
  const turnsFor = (model: string): CanonicalRequest["turns"] => [
    { role: "user", parts: [{ type: "text", text: "Hello." }] },
    {
      role: "assistant",
      parts: [
        {
          type: "reasoning",
          text: "A greeting.",
          blob: {
            wire: "converse",
            kind: "signature",
            data: "c2ln",
            origin: { provider: "bedrock", model },
          },
        },
        { type: "text", text: "Hi." },
      ],
    },
    { role: "user", parts: [{ type: "text", text: "Again." }] },
  ];
  for (const [name, isSent] of [
    ["us.moonshotai.kimi-k3", false],
    ["moonshotai.kimi-k2.5", true],
  ] as const) {
    const { body, losses } = write(find(name), { turns: turnsFor(name) });
    expect([name, JSON.stringify(body).includes("A greeting.")]).toEqual([name, isSent]);
    expect(losses.map(({ tolerated }) => tolerated)).toEqual(isSent ? [] : [true]);
  }
});
