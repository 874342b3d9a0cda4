import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { Fault } from "../../src/base/fault.ts";
import { type InputLocation, parseWithSchema } from "../../src/http/request/validate.ts";

const Query = z.strictObject({
  group_by: z.enum(["day", "model"]).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
});

const Body = z.strictObject({
  name: z.string().min(2).max(4),
  count: z.number().int().positive().optional(),
  enabled: z.boolean().optional(),
  kind: z.literal("list").optional(),
  url: z.url().optional(),
  tags: z.array(z.string()).max(1).optional(),
  budget: z.strictObject({ daily_usd: z.number() }).nullable().optional(),
  code: z.string().regex(/^\d+$/, "must have digits only").optional(),
  step: z.number().multipleOf(5).optional(),
});

const Form = z.discriminatedUnion("do", [
  z.strictObject({ do: z.literal("add"), url: z.string() }),
  z.strictObject({ do: z.literal("remove"), id: z.string() }),
]);

function faultOf(schema: z.ZodType, value: unknown, location: InputLocation = "body"): Fault {
  try {
    parseWithSchema(schema, value, location);
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("the value was accepted");
}

describe("parseWithSchema", () => {
  test("returns the parsed value", () => {
    expect(parseWithSchema(Query, { limit: "5" }, "query")).toEqual({ limit: 5 });
  });

  test.each<[value: unknown, param: string, message: string]>([
    [{ by: "day" }, "by", "Unknown query parameter `by`. Did you mean `group_by`?"],
    [{ page: "2" }, "page", "Unknown query parameter `page`. Supported: `group_by`, `limit`."],
    [{ group_by: "key" }, "group_by", "`group_by` must be one of `day`, `model`."],
    [{ limit: "0" }, "limit", "`limit` must be at least 1."],
    [{ limit: "101" }, "limit", "`limit` must be at most 100."],
  ])("rejects the query %j", (value, param, message) => {
    const fault = faultOf(Query, value, "query");
    expect([fault.status, fault.publicMessage]).toEqual([400, message]);
    expect(fault.options).toMatchObject({ param, malformed: "query" });
  });

  test.each<[value: unknown, param: string | undefined, message: string]>([
    [[], undefined, "The request body must be an object."],
    [{}, "name", "`name` is required."],
    [{ name: 1 }, "name", "`name` must be a string."],
    [{ nam: "ab" }, "nam", "Unknown field `nam`. Did you mean `name`?"],
    [{ name: "a" }, "name", "`name` must have at least 2 characters."],
    [{ name: "abcde" }, "name", "`name` must have at most 4 characters."],
    [{ name: "ab", count: 0 }, "count", "`count` must be more than 0."],
    [{ name: "ab", count: 1.5 }, "count", "`count` must be an integer."],
    [{ name: "ab", enabled: "yes" }, "enabled", "`enabled` must be true or false."],
    [{ name: "ab", kind: "set" }, "kind", "`kind` must be `list`."],
    [{ name: "ab", url: "x" }, "url", "`url` must be a URL."],
    [{ name: "ab", tags: ["a", "b"] }, "tags", "`tags` must have at most 1 item."],
    [{ name: "ab", tags: [1] }, "tags.0", "`tags.0` must be a string."],
    [{ name: "ab", step: 3 }, "step", "`step` must be a multiple of 5."],
    [{ name: "ab", budget: {} }, "budget.daily_usd", "`budget.daily_usd` is required."],
    [{ name: "ab", enable: true }, "enable", "Unknown field `enable`. Did you mean `enabled`?"],
    [
      { name: "ab", budget: { daily_usd: 1, weekly: 2 } },
      "budget.weekly",
      "Unknown field `budget.weekly`. Supported: `daily_usd`.",
    ],
  ])("rejects the body %j", (value, param, message) => {
    const fault = faultOf(Body, value);
    expect([fault.options.param, fault.publicMessage]).toEqual([param, message]);
    expect(fault.options.malformed).toBe("body");
  });

  test("completes the sentence of a schema's own message", () => {
    const fault = faultOf(Body, { name: "ab", code: "x" });
    expect(fault.publicMessage).toBe("`code` must have digits only.");
    expect(fault.options.malformed).toBeUndefined();
  });

  test("lists the alternatives of a discriminated union", () => {
    expect(faultOf(Form, { do: "edit" }).publicMessage).toBe(
      "`do` must be one of `add`, `remove`.",
    );
    expect(faultOf(Form, {}).publicMessage).toBe("`do` is required.");
    expect(faultOf(Form, { do: "add", url: "x", urls: "y" }).publicMessage).toBe(
      "Unknown field `urls`. Did you mean `url`?",
    );
  });

  test("says that an endpoint without fields has none", () => {
    expect(faultOf(z.strictObject({}), { a: 1 }).publicMessage).toBe(
      "Unknown field `a`. No fields are supported here.",
    );
  });

  test("shortens a name that is too long to be a typo", () => {
    const { publicMessage, options } = faultOf(Body, { name: "ab", ["n".repeat(100_000)]: 1 });
    expect(options.param).toBe("n".repeat(64));
    expect(publicMessage.length).toBeLessThan(300);
  });
});
