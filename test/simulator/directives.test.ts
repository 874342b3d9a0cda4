import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import {
  DIRECTIVES,
  orderInHeaders,
  orderInText,
  type DirectiveName,
} from "../../src/simulator/directives.ts";
import {
  asker,
  chatBody,
  chatTool,
  dataOf,
  json,
  readAll,
  rejection,
  serveSimulator,
} from "./serve.ts";

const ask = asker();
const CHAT = "/v1/chat/completions";

const whole = async (orders: string, more: Record<string, unknown> = {}) =>
  json(ask(CHAT, chatBody(`Hello there [[sim: ${orders}]]`, more)));
const streamed = (orders: string, more: Record<string, unknown> = {}) =>
  ask(
    CHAT,
    chatBody(`Hello there [[sim: ${orders}]]`, {
      stream: true,
      stream_options: { include_usage: true },
      ...more,
    }),
  );
const text = async (orders: string, more: Record<string, unknown> = {}) =>
  (await readAll(await streamed(orders, more))).text;
const contents = (body: string): string[] =>
  dataOf(body)
    .map((chunk) => chunk.choices?.[0]?.delta?.content)
    .filter(Boolean);

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function servedText(
  orders: string,
  more: Record<string, unknown> = {},
): Promise<{ readonly response?: Response; readonly text: string; readonly broken: boolean }> {
  const served = serveSimulator();
  try {
    const response = await fetch(served.url + CHAT, {
      method: "POST",
      redirect: "manual",
      body: JSON.stringify(chatBody(`Hello there [[sim: ${orders}]]`, { stream: true, ...more })),
    }).catch(() => undefined);
    if (response === undefined) return { text: "", broken: true };
    const { text, broken } = await readAll(response);
    return { response, text, broken };
  } finally {
    await served.stop();
  }
}

// One test for each row of the table: a row without a test does not compile.
const TESTS: Record<DirectiveName, () => Promise<void>> = {
  latency: async () => expect(await milliseconds(() => whole("latency=30"))).toBeGreaterThan(28),
  pace: async () => expect(await milliseconds(() => text("pace=10 chunks=5"))).toBeGreaterThan(38),
  tokens: async () => {
    const reply = await whole("tokens=40");
    expect(reply.usage.completion_tokens).toBe(40);
    expect((await whole("tokens=40", { max_tokens: 7 })).usage.completion_tokens).toBe(7);
  },
  chunks: async () => {
    expect(contents(await text("chunks=40"))).toHaveLength(40);
    const few = await text("chunks=4 tokens=100");
    expect(contents(few)).toHaveLength(4);
    expect(dataOf(few).at(-1).usage.completion_tokens).toBe(100);
  },
  kb: async () => {
    const body = await text("kb=200 chunks=1");
    expect(contents(body).map((content) => content.length)).toEqual([204_800]);
  },
  text: async () =>
    expect((await whole('text="good morning"')).choices[0].message.content).toBe("good morning"),
  empty: async () =>
    expect(await whole("empty")).toMatchObject({
      choices: [{ message: { content: "" }, finish_reason: "stop" }],
      usage: { completion_tokens: 0 },
    }),
  preamble: async () => {
    const { message } = (
      await whole("preamble", { tools: [chatTool("f")], tool_choice: "required" })
    ).choices[0];
    expect(message).toMatchObject({
      content: "I will use f.",
      tool_calls: [{ function: { name: "f" } }],
    });
  },
  calls: async () =>
    expect(
      (await whole("calls=3", { tools: [chatTool("f")] })).choices[0].message.tool_calls,
    ).toHaveLength(3),
  "no-schema": async () => {
    const format = { type: "json_schema", json_schema: { name: "a", schema: { type: "object" } } };
    expect((await whole("no-schema", { response_format: format })).error.message).toContain(
      "response_format",
    );
    expect(await whole("no-schema", { response_format: { type: "json_object" } })).toHaveProperty(
      "choices",
    );
  },
  "no-forced-call": async () => {
    const tools = [chatTool("f")];
    const forced = await whole("no-forced-call", { tools, tool_choice: "required" });
    expect(forced.error.message).toContain("tool_choice");
    expect(await whole("no-forced-call", { tools, tool_choice: "auto" })).toHaveProperty("choices");
  },
  refusal: async () =>
    expect((await whole("refusal")).choices[0].message).toMatchObject({
      content: null,
      refusal: expect.stringContaining("sorry"),
    }),
  filter: async () =>
    expect((await whole("filter")).choices[0].finish_reason).toBe("content_filter"),
  "answer-model": async () =>
    expect((await whole("answer-model=sim/other")).model).toBe("sim/other"),
  tier: async () => expect((await whole("tier=flex")).service_tier).toBe("flex"),
  reasoning: async () =>
    expect((await whole("reasoning=64")).usage.completion_tokens_details.reasoning_tokens).toBe(64),
  "reasoning-field": async () => {
    expect(
      (await whole("reasoning=9 reasoning-field=reasoning")).choices[0].message,
    ).toHaveProperty("reasoning");
    const { message } = (await whole("reasoning=9 reasoning-field=none")).choices[0];
    expect("reasoning" in message || "reasoning_content" in message).toBe(false);
  },
  input: async () => expect((await whole("input=1000")).usage.prompt_tokens).toBe(1_000),
  output: async () =>
    expect((await whole("output=50 reasoning=9")).usage.completion_tokens).toBe(59),
  cached: async () =>
    expect((await whole("input=10 cached=500")).usage).toMatchObject({
      prompt_tokens: 510,
      prompt_tokens_details: { cached_tokens: 500 },
    }),
  "cache-5m": async () =>
    expect((await whole("input=10 cache-5m=300")).usage).toMatchObject({
      prompt_tokens: 310,
      prompt_tokens_details: { cache_write_tokens: 300 },
    }),
  "cache-1h": async () =>
    expect((await whole("input=10 cache-1h=300")).usage.prompt_tokens).toBe(310),
  usage: async () => {
    expect(await whole("usage=none")).not.toHaveProperty("usage");
    expect(dataOf(await text("usage=twice")).filter((chunk) => chunk.usage)).toHaveLength(2);
    expect((await whole("usage=negative")).usage.prompt_tokens).toBeLessThan(0);
    expect((await whole("usage=huge")).usage.completion_tokens).toBe(Number.MAX_SAFE_INTEGER);
    expect((await whole("usage=missing")).usage).not.toHaveProperty("completion_tokens");
    expect((await whole("usage=zero")).usage).toMatchObject({
      prompt_tokens: 0,
      completion_tokens: 0,
    });
    expect((await whole("usage=text input=7")).usage.prompt_tokens).toBe("7");
  },
  status: async () => {
    const response = await streamed("status=503");
    expect(response.status).toBe(503);
    expect((await json(response)).error.type).toBe("server_error");
  },
  "retry-after": async () => {
    const response = await streamed("retry-after=3");
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("3");
  },
  limits: async () => {
    const response = await streamed("limits=5");
    expect(response.headers.get("x-ratelimit-remaining-requests")).toBe("5");
  },
  message: async () =>
    expect((await whole('status=500 message="All is lost"')).error.message).toBe("All is lost"),
  html: async () => {
    const response = await streamed("html");
    expect(response.status).toBe(502);
    expect(await response.text()).toStartWith("<html>");
  },
  "error-body": async () => {
    const response = await streamed("error-body");
    expect(response.status).toBe(200);
    expect(await json(response)).toHaveProperty("error");
  },
  redirect: async () => {
    const response = await streamed("redirect=https://example.com/");
    expect([response.status, response.headers.get("location")]).toEqual([
      307,
      "https://example.com/",
    ]);
  },
  drop: async () => {
    expect((await readAll(await streamed("drop"))).broken).toBe(true);
    expect(await servedText("drop")).toEqual({ text: "", broken: true });
  },
  cut: async () => {
    const { text, broken } = await servedText("cut=3");
    expect(broken).toBe(true);
    expect(contents(text)).toHaveLength(3);
    const body = await servedText("cut=0", { stream: false });
    expect(body.broken).toBe(true);
    expect(body.text).toStartWith('{"id"');
  },
  fail: async () => {
    const body = await text("fail=2");
    expect(contents(body)).toHaveLength(2);
    expect(dataOf(body).at(-1).error).toMatchObject({ message: "Overloaded" });
    expect(body).not.toContain("[DONE]");
  },
  garble: async () => {
    const body = await text("garble=2");
    expect(() => dataOf(body)).toThrow();
    expect(body).toContain("[DONE]");
    expect(await rejection(whole("garble=0"))).toBeInstanceOf(SyntaxError);
  },
  hang: async () => {
    const served = serveSimulator();
    const response = await fetch(served.url + CHAT, {
      method: "POST",
      body: JSON.stringify(chatBody("Hello there [[sim: hang=2]]", { stream: true })),
      signal: AbortSignal.timeout(250),
    });
    const { text, broken } = await readAll(response);
    expect(broken).toBe(true);
    expect(contents(text)).toHaveLength(2);
    await served.stop();
  },
  "hang-ms": async () => {
    expect(
      await milliseconds(async () =>
        expect(await text("hang=2 hang-ms=30")).toEndWith("[DONE]\n\n"),
      ),
    ).toBeGreaterThan(28);
    expect(await milliseconds(() => whole("hang=2 hang-ms=30"))).toBeGreaterThan(28);
  },
  flood: async () => {
    const body = await text("flood=300");
    expect(body.length).toBeGreaterThan(300 * 1_024);
    expect(body).toEndWith("[DONE]\n\n");
  },
  "no-end": async () => expect(await text("no-end")).not.toContain("[DONE]"),
  slice: async () => {
    const { chunks, text: sent } = await readAll(await streamed("slice=7"));
    expect(chunks.slice(0, -1).every((chunk) => chunk.length === 7)).toBe(true);
    expect(contents(sent).join("")).toBe("You said: Hello there");
    expect(
      (await readAll(await ask(CHAT, chatBody("ü [[sim: slice=1]]")))).chunks.length,
    ).toBeGreaterThan(300);
  },
  slow: async () => {
    const { chunks } = await readAll(await ask(CHAT, chatBody("hi [[sim: slow=1]]")));
    expect(chunks[0]?.length).toBe(16);
  },
  newline: async () => {
    expect((await text("newline=crlf")).replaceAll("\r\n", "")).not.toContain("\n");
    expect(await text("newline=cr")).not.toContain("\n");
  },
  keepalive: async () =>
    expect((await text("keepalive chunks=3")).match(/^: keepalive$/gm)).toHaveLength(3),
  gzip: async () => {
    const { response, text } = await servedText("gzip", { stream: false });
    expect(JSON.parse(text)).toHaveProperty("usage");
    expect(response?.ok).toBe(true);
    const raw = await ask(CHAT, chatBody("Hello there [[sim: gzip]]"));
    expect(raw.headers.get("content-encoding")).toBe("gzip");
    expect(new Uint8Array(await raw.arrayBuffer()).slice(0, 2)).toEqual(
      new Uint8Array([0x1f, 0x8b]),
    );
  },
  "content-type": async () =>
    expect((await streamed("content-type=text/plain")).headers.get("content-type")).toBe(
      "text/plain",
    ),
};

describe("directive", () => {
  test.each(Object.entries(TESTS))("%s", async (_, run) => run());
});

describe("the table", () => {
  test("every example is taken as its own row says", () => {
    for (const [name, row] of Object.entries(DIRECTIVES)) {
      const read = orderInText(`[[sim: ${row.example}]]`);
      expect(read?.mistakes).toEqual([]);
      expect(Object.keys(read?.order ?? {})).toEqual([name]);
    }
  });

  test("docs/simulator.md lists exactly the code's rows", () => {
    const page = readFileSync(new URL("../../docs/simulator.md", import.meta.url), "utf8");
    const listed = page
      .split("\n")
      .filter((line) => line.startsWith("| `"))
      .map((line) =>
        line
          .split("|")
          .slice(1, 3)
          .map((cell) => cell.trim()),
      );
    const rows = Object.values(DIRECTIVES).map((row) => [`\`${row.example}\``, row.does]);
    expect(listed).toEqual(rows);
  });

  test("orders come by header and by text, and the text wins", async () => {
    expect(
      orderInHeaders([
        ["x-sim-latency", "5"],
        ["x-other", "1"],
        ["x-sim-html", "true"],
      ]),
    ).toEqual({ order: { latency: 5, html: true }, mistakes: [] });
    const reply = await ask(CHAT, chatBody("a [[sim: status=503]] b"), {
      "x-sim-status": "500",
      "x-sim-message": "both",
    });
    expect(reply.status).toBe(503);
    expect((await json(reply)).error.message).toBe("both");
  });

  test("the echo leaves the order out", async () => {
    expect((await whole("tier=flex")).choices[0].message.content).toBe("You said: Hello there");
  });

  test("a mistake is answered, not overlooked", async () => {
    for (const wrong of [
      "latencie=3",
      "latency",
      "latency=soon",
      "usage=odd",
      "html=maybe",
      "status=600",
    ]) {
      const response = await ask(CHAT, chatBody(`[[sim: ${wrong}]]`));
      expect(response.status).toBe(400);
      expect((await json(response)).error.message).toContain(wrong);
    }
  });
});

describe("the other wires", () => {
  const cases: [string, string, (text: string) => Record<string, unknown>][] = [
    ["responses", "/v1/responses", (input) => ({ model: "sim/echo", stream: true, input })],
    [
      "messages",
      "/v1/messages",
      (content) => ({
        model: "sim/echo",
        stream: true,
        max_tokens: 999,
        messages: [{ role: "user", content }],
      }),
    ],
    [
      "gemini",
      "/v1beta/models/echo:streamGenerateContent?alt=sse",
      (words) => ({ contents: [{ parts: [{ text: words }] }] }),
    ],
  ];
  test.each(cases)("%s: faults in a stream", async (_, path, body) => {
    const run = async (orders: string) =>
      readAll(await ask(path, body(`Hello there [[sim: ${orders}]]`)));
    expect((await run("cut=2")).broken).toBe(true);
    expect((await run("fail=2")).text).toContain("Overloaded");
    const plain = await readAll(await ask(path, body("Hello there")));
    const ordered = async (name: string, value: string) =>
      readAll(await ask(path, body("Hello there"), { [`x-sim-${name}`]: value }));
    expect((await ordered("slice", "3")).text).toBe(plain.text);
    expect((await ordered("usage", "twice")).text.length).toBeGreaterThan(plain.text.length + 50);
    expect((await run("usage=none")).text.toLowerCase()).not.toMatch(/"usage(metadata)?":\{/);
    expect((await run("flood=64")).text.length).toBeGreaterThan(65_536);
    expect((await run("keepalive")).text).toMatch(/keepalive|event: ping/);
    expect((await run("status=503")).text).toStartWith("{");
  });
});
