// Inference profiles of Bedrock: which price a name has, and which name is sent.

import { describe, expect, test } from "bun:test";
import { nameInRegion } from "../../src/models/bedrock-profiles.ts";
import { builtInModels, catalogOf, findModel } from "../../src/models/catalog.ts";

const catalog = catalogOf(builtInModels());
const NEW_CLAUDE = "anthropic.claude-opus-4-8";

function found(name: string): readonly [id: string, upstreamName: string] | undefined {
  const resolved = findModel(catalog, `bedrock/${name}`);
  return resolved && [resolved.model.id, resolved.upstreamName];
}

describe("inference profiles", () => {
  test.each(["us", "eu", "jp", "au", "apac", "ca", "in"])(
    "%s is sent as requested, at the price of a geography",
    (geography) => {
      const name = `${geography}.${NEW_CLAUDE}`;
      expect(found(name)).toEqual([`bedrock/us.${NEW_CLAUDE}`, name]);
    },
  );

  test("global has its own price", () => {
    expect(found(`global.${NEW_CLAUDE}`)).toEqual([
      `bedrock/global.${NEW_CLAUDE}`,
      `global.${NEW_CLAUDE}`,
    ]);
  });

  test("exist for models that the price table lists without one", () => {
    expect(found("us.meta.llama4-scout-17b-instruct-v1:0")).toEqual([
      "bedrock/meta.llama4-scout-17b-instruct-v1:0",
      "us.meta.llama4-scout-17b-instruct-v1:0",
    ]);
  });

  test("of AWS GovCloud have no known price", () => {
    expect(found("us-gov.amazon.nova-lite-v1:0")).toBeUndefined();
  });

  test("a version that Bedrock does not accept is replaced by its own name", () => {
    expect(found("eu.anthropic.claude-opus-4-8-v1:0")?.[1]).toBe(`eu.${NEW_CLAUDE}`);
    expect(found("us.anthropic.claude-opus-4-5-v1:0")?.[1]).toBe(
      "us.anthropic.claude-opus-4-5-20251101-v1:0",
    );
  });

  test("a model without on-demand throughput gets the profile of the region that is called", () => {
    expect(found(NEW_CLAUDE)).toEqual([`bedrock/us.${NEW_CLAUDE}`, NEW_CLAUDE]);
    const sent = (region: string, name: string) =>
      nameInRegion(name, `https://bedrock-runtime.${region}.amazonaws.com`);
    expect(sent("us-east-1", NEW_CLAUDE)).toBe(`us.${NEW_CLAUDE}`);
    expect(sent("eu-central-1", NEW_CLAUDE)).toBe(`eu.${NEW_CLAUDE}`);
    expect(sent("ap-northeast-1", NEW_CLAUDE)).toBe(`jp.${NEW_CLAUDE}`);
    expect(sent("ap-southeast-2", NEW_CLAUDE)).toBe(`au.${NEW_CLAUDE}`);
    expect(sent("ap-south-1", NEW_CLAUDE)).toBe(`apac.${NEW_CLAUDE}`);
    expect(sent("ap-northeast-1", "anthropic.claude-sonnet-4-20250514-v1:0")).toBe(
      "apac.anthropic.claude-sonnet-4-20250514-v1:0",
    );
    expect(sent("sa-east-1", NEW_CLAUDE)).toBe(`global.${NEW_CLAUDE}`);
    expect(nameInRegion(NEW_CLAUDE, "http://127.0.0.1:9")).toBe(`us.${NEW_CLAUDE}`);
  });

  test("a requested profile and a model with on-demand throughput keep their name in every region", () => {
    const url = "https://bedrock-runtime.eu-central-1.amazonaws.com";
    expect(nameInRegion(`us.${NEW_CLAUDE}`, url)).toBe(`us.${NEW_CLAUDE}`);
    expect(nameInRegion("amazon.nova-lite-v1:0", url)).toBe("amazon.nova-lite-v1:0");
  });
});

describe("reasoning on Bedrock", () => {
  test.each([
    "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    `global.${NEW_CLAUDE}`,
    "us.amazon.nova-2-lite-v1:0",
    "openai.gpt-oss-120b-1:0",
    "us.openai.gpt-6.1-terra",
    "deepseek.r1-v1:0",
    "us.moonshotai.kimi-k3",
    "minimax.minimax-m2",
    "zai.glm-4.7",
    "qwen.qwen3-32b-v1:0",
  ])("%s reasons", (name) => {
    expect(findModel(catalog, `bedrock/${name}`)?.model.supported).toContain("reasoning");
  });

  test.each(["amazon.nova-lite-v1:0", "meta.llama3-3-70b-instruct-v1:0"])("%s does not", (name) => {
    expect(findModel(catalog, `bedrock/${name}`)?.model.supported).not.toContain("reasoning");
  });
});
