import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { openRawConnection } from "../../../../test/http/raw-client.ts";
import { eventually } from "../../../../test/support/eventually.ts";
import {
  DIRECTIVES,
  directivesInHeaders,
  directivesInText,
  type DirectiveName,
} from "../../src/faults/directives.ts";
import {
  createClient,
  chatBody,
  chatTool,
  eventData,
  json,
  readAll,
  rejectionReason,
  serveSimulator,
} from "../simulator-harness.ts";

const send = createClient();
const CHAT_PATH = "/v1/chat/completions";

const sendWhole = async (directives: string, more: Record<string, unknown> = {}) =>
  json(send(CHAT_PATH, chatBody(`Hello there [[sim: ${directives}]]`, more)));
const sendStreamed = (directives: string, more: Record<string, unknown> = {}) =>
  send(
    CHAT_PATH,
    chatBody(`Hello there [[sim: ${directives}]]`, {
      stream: true,
      stream_options: { include_usage: true },
      ...more,
    }),
  );
const text = async (directives: string, more: Record<string, unknown> = {}) =>
  (await readAll(await sendStreamed(directives, more))).text;
const contents = (body: string): string[] =>
  eventData(body)
    .map((chunk) => chunk.choices?.[0]?.delta?.content)
    .filter(Boolean);

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

async function textOverHttp(
  directives: string,
  more: Record<string, unknown> = {},
): Promise<{ readonly response?: Response; readonly text: string; readonly isTruncated: boolean }> {
  const served = serveSimulator();
  try {
    const response = await fetch(served.url + CHAT_PATH, {
      method: "POST",
      redirect: "manual",
      body: JSON.stringify(
        chatBody(`Hello there [[sim: ${directives}]]`, { stream: true, ...more }),
      ),
    }).catch(() => undefined);
    if (response === undefined) return { text: "", isTruncated: true };
    const { text, isTruncated } = await readAll(response);
    return { response, text, isTruncated };
  } finally {
    await served.stop();
  }
}

/** On a socket: `fetch` drops chunks that are not read before the connection is cut. */
async function receivedUntilClosed(directives: string, stream = true): Promise<string> {
  const served = serveSimulator();
  const connection = await openRawConnection(served);
  const body = JSON.stringify(chatBody(`Hello there [[sim: ${directives}]]`, { stream }));
  await connection.write(
    `POST ${CHAT_PATH} HTTP/1.1\r\nhost: simulator\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  const { text } = await connection.whenClosed();
  await served.stop();
  return text;
}

// One test per directive; a directive without a test does not compile.
const DIRECTIVE_TESTS: Record<DirectiveName, () => Promise<void>> = {
  latency: async () =>
    expect(await milliseconds(() => sendWhole("latency=30"))).toBeGreaterThan(28),
  wait: async () => {
    const waiting = async () => (await json(send("/sim/stats", undefined))).open_streams;
    const reply = sendWhole("wait=a");
    await eventually(async () => (await waiting()) === 1);
    await send("/sim/release?wait=b", "");
    expect(await waiting()).toBe(1);
    await send("/sim/release?wait=a", "");
    expect((await reply).object).toBe("chat.completion");
    // Later replies do not wait.
    expect((await sendWhole("wait=a")).object).toBe("chat.completion");
  },
  pace: async () => expect(await milliseconds(() => text("pace=10 chunks=5"))).toBeGreaterThan(38),
  tokens: async () => {
    const reply = await sendWhole("tokens=40");
    expect(reply.usage.completion_tokens).toBe(40);
    expect((await sendWhole("tokens=40", { max_tokens: 7 })).usage.completion_tokens).toBe(7);
  },
  chunks: async () => {
    expect(contents(await text("chunks=40"))).toHaveLength(40);
    const few = await text("chunks=4 tokens=100");
    expect(contents(few)).toHaveLength(4);
    expect(eventData(few).at(-1).usage.completion_tokens).toBe(100);
  },
  kb: async () => {
    const body = await text("kb=200 chunks=1");
    expect(contents(body).map((content) => content.length)).toEqual([204_800]);
  },
  text: async () =>
    expect((await sendWhole('text="good morning"')).choices[0].message.content).toBe(
      "good morning",
    ),
  empty: async () =>
    expect(await sendWhole("empty")).toMatchObject({
      choices: [{ message: { content: "" }, finish_reason: "stop" }],
      usage: { completion_tokens: 0 },
    }),
  preamble: async () => {
    const { message } = (
      await sendWhole("preamble", { tools: [chatTool("f")], tool_choice: "required" })
    ).choices[0];
    expect(message).toMatchObject({
      content: "I will use f.",
      tool_calls: [{ function: { name: "f" } }],
    });
  },
  calls: async () =>
    expect(
      (await sendWhole("calls=3", { tools: [chatTool("f")] })).choices[0].message.tool_calls,
    ).toHaveLength(3),
  context: async () => {
    expect((await sendWhole("context=4")).error.code).toBe("context_length_exceeded");
    expect(await sendWhole("context=4000")).toHaveProperty("choices");
  },
  "no-schema": async () => {
    const format = { type: "json_schema", json_schema: { name: "a", schema: { type: "object" } } };
    expect((await sendWhole("no-schema", { response_format: format })).error.message).toContain(
      "response_format",
    );
    expect(
      await sendWhole("no-schema", { response_format: { type: "json_object" } }),
    ).toHaveProperty("choices");
  },
  "no-forced-call": async () => {
    const tools = [chatTool("f")];
    const forced = await sendWhole("no-forced-call", { tools, tool_choice: "required" });
    expect(forced.error.message).toContain("tool_choice");
    expect(await sendWhole("no-forced-call", { tools, tool_choice: "auto" })).toHaveProperty(
      "choices",
    );
  },
  refusal: async () =>
    expect((await sendWhole("refusal")).choices[0].message).toMatchObject({
      content: null,
      refusal: expect.stringContaining("sorry"),
    }),
  filter: async () =>
    expect((await sendWhole("filter")).choices[0].finish_reason).toBe("content_filter"),
  "answer-model": async () =>
    expect((await sendWhole("answer-model=sim/other")).model).toBe("sim/other"),
  tier: async () => expect((await sendWhole("tier=flex")).service_tier).toBe("flex"),
  reasoning: async () =>
    expect((await sendWhole("reasoning=64")).usage.completion_tokens_details.reasoning_tokens).toBe(
      64,
    ),
  "reasoning-field": async () => {
    expect(
      (await sendWhole("reasoning=9 reasoning-field=reasoning")).choices[0].message,
    ).toHaveProperty("reasoning");
    const { message } = (await sendWhole("reasoning=9 reasoning-field=none")).choices[0];
    expect("reasoning" in message || "reasoning_content" in message).toBe(false);
  },
  input: async () => expect((await sendWhole("input=1000")).usage.prompt_tokens).toBe(1_000),
  output: async () =>
    expect((await sendWhole("output=50 reasoning=9")).usage.completion_tokens).toBe(59),
  cached: async () =>
    expect((await sendWhole("input=10 cached=500")).usage).toMatchObject({
      prompt_tokens: 510,
      prompt_tokens_details: { cached_tokens: 500 },
    }),
  "cache-5m": async () =>
    expect((await sendWhole("input=10 cache-5m=300")).usage).toMatchObject({
      prompt_tokens: 310,
      prompt_tokens_details: { cache_write_tokens: 300 },
    }),
  "cache-1h": async () =>
    expect((await sendWhole("input=10 cache-1h=300")).usage.prompt_tokens).toBe(310),
  usage: async () => {
    expect(await sendWhole("usage=none")).not.toHaveProperty("usage");
    expect(eventData(await text("usage=twice")).filter((chunk) => chunk.usage)).toHaveLength(2);
    expect((await sendWhole("usage=negative")).usage.prompt_tokens).toBeLessThan(0);
    expect((await sendWhole("usage=huge")).usage.completion_tokens).toBe(Number.MAX_SAFE_INTEGER);
    expect((await sendWhole("usage=missing")).usage).not.toHaveProperty("completion_tokens");
    expect((await sendWhole("usage=zero")).usage).toMatchObject({
      prompt_tokens: 0,
      completion_tokens: 0,
    });
    expect((await sendWhole("usage=text input=7")).usage.prompt_tokens).toBe("7");
  },
  status: async () => {
    const response = await sendStreamed("status=503");
    expect(response.status).toBe(503);
    expect((await json(response)).error.type).toBe("server_error");
  },
  "retry-after": async () => {
    const response = await sendStreamed("retry-after=3");
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("3");
  },
  limits: async () => {
    const response = await sendStreamed("limits=5");
    expect(response.headers.get("x-ratelimit-remaining-requests")).toBe("5");
  },
  message: async () =>
    expect((await sendWhole('status=500 message="All is lost"')).error.message).toBe("All is lost"),
  html: async () => {
    const response = await sendStreamed("html");
    expect(response.status).toBe(502);
    expect(await response.text()).toStartWith("<html>");
  },
  "error-body": async () => {
    const response = await sendStreamed("error-body");
    expect(response.status).toBe(200);
    expect(await json(response)).toHaveProperty("error");
  },
  redirect: async () => {
    const response = await sendStreamed("redirect=https://example.com/");
    expect([response.status, response.headers.get("location")]).toEqual([
      307,
      "https://example.com/",
    ]);
  },
  drop: async () => {
    expect((await readAll(await sendStreamed("drop"))).isTruncated).toBe(true);
    expect(await textOverHttp("drop")).toEqual({ text: "", isTruncated: true });
  },
  cut: async () => {
    const received = await receivedUntilClosed("cut=3 pace=1");
    expect(received.match(/"content":"[^"]/g)).toHaveLength(3);
    expect(received).not.toContain("\r\n0\r\n");
    const whole = await receivedUntilClosed("cut=0", false);
    expect(whole).toContain('{"id"');
    expect(whole).not.toContain("\r\n0\r\n");
  },
  fail: async () => {
    const body = await text("fail=2");
    expect(contents(body)).toHaveLength(2);
    expect(eventData(body).at(-1).error).toMatchObject({ message: "Overloaded" });
    expect(body).not.toContain("[DONE]");
  },
  garble: async () => {
    const body = await text("garble=2");
    expect(() => eventData(body)).toThrow();
    expect(body).toContain("[DONE]");
    expect(await rejectionReason(sendWhole("garble=0"))).toBeInstanceOf(SyntaxError);
  },
  hang: async () => {
    const { body } = await sendStreamed("hang=2");
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
    let received = "";
    while (contents(received).length < 2) received += (await reader?.read())?.value ?? "";
    let hasMore = false;
    void reader?.read().then(() => {
      hasMore = true;
    });
    // A stream that begins later is complete before more of this one arrives.
    expect(await text("chunks=40")).toContain("[DONE]");
    expect(hasMore).toBe(false);
    await reader?.cancel();
  },
  "hang-ms": async () => {
    expect(
      await milliseconds(async () =>
        expect(await text("hang=2 hang-ms=30")).toEndWith("[DONE]\n\n"),
      ),
    ).toBeGreaterThan(28);
    expect(await milliseconds(() => sendWhole("hang=2 hang-ms=30"))).toBeGreaterThan(28);
  },
  flood: async () => {
    const body = await text("flood=300");
    expect(body.length).toBeGreaterThan(300 * 1_024);
    expect(body).toEndWith("[DONE]\n\n");
  },
  "no-end": async () => expect(await text("no-end")).not.toContain("[DONE]"),
  slice: async () => {
    const { chunks, text: sent } = await readAll(await sendStreamed("slice=7"));
    expect(chunks.slice(0, -1).every((chunk) => chunk.length === 7)).toBe(true);
    expect(contents(sent).join("")).toBe("You said: Hello there");
    expect(
      (await readAll(await send(CHAT_PATH, chatBody("ü [[sim: slice=1]]")))).chunks.length,
    ).toBeGreaterThan(300);
  },
  slow: async () => {
    const { chunks } = await readAll(await send(CHAT_PATH, chatBody("hi [[sim: slow=1]]")));
    expect(chunks[0]?.length).toBe(16);
  },
  newline: async () => {
    expect((await text("newline=crlf")).replaceAll("\r\n", "")).not.toContain("\n");
    expect(await text("newline=cr")).not.toContain("\n");
  },
  keepalive: async () =>
    expect((await text("keepalive chunks=3")).match(/^: keepalive$/gm)).toHaveLength(3),
  gzip: async () => {
    const { response, text } = await textOverHttp("gzip", { stream: false });
    expect(JSON.parse(text)).toHaveProperty("usage");
    expect(response?.ok).toBe(true);
    const raw = await send(CHAT_PATH, chatBody("Hello there [[sim: gzip]]"));
    expect(raw.headers.get("content-encoding")).toBe("gzip");
    expect(new Uint8Array(await raw.arrayBuffer()).slice(0, 2)).toEqual(
      new Uint8Array([0x1f, 0x8b]),
    );
  },
  "content-type": async () =>
    expect((await sendStreamed("content-type=text/plain")).headers.get("content-type")).toBe(
      "text/plain",
    ),
};

describe("directives", () => {
  test.each(Object.entries(DIRECTIVE_TESTS))("%s", async (_, run) => run());
});

describe("the directive table", () => {
  test("parses every example", () => {
    for (const [name, row] of Object.entries(DIRECTIVES)) {
      const read = directivesInText(`[[sim: ${row.example}]]`);
      expect(read?.errors).toEqual([]);
      expect(Object.keys(read?.directives ?? {})).toEqual([name]);
    }
  });

  test("is documented in docs/site/simulator.md", () => {
    const page = readFileSync(
      new URL("../../../../docs/site/simulator.md", import.meta.url),
      "utf8",
    );
    const [, section = ""] = /\n## Directives\n(.*?)\n## /s.exec(page) ?? [];
    const listed = section
      .split("\n")
      .filter((line) => line.startsWith("| `"))
      .map((line) =>
        line
          .split("|")
          .slice(1, 3)
          .map((cell) => cell.trim()),
      );
    const rows = Object.values(DIRECTIVES).map((row) => [`\`${row.example}\``, row.description]);
    expect(listed).toEqual(rows);
  });

  test("merges header and text directives, text first", async () => {
    expect(
      directivesInHeaders([
        ["x-sim-latency", "5"],
        ["x-other", "1"],
        ["x-sim-html", "true"],
      ]),
    ).toEqual({ directives: { latency: 5, html: true }, errors: [] });
    const reply = await send(CHAT_PATH, chatBody("a [[sim: status=503]] b"), {
      "x-sim-status": "500",
      "x-sim-message": "both",
    });
    expect(reply.status).toBe(503);
    expect((await json(reply)).error.message).toBe("both");
  });

  test("the echo omits directives", async () => {
    expect((await sendWhole("tier=flex")).choices[0].message.content).toBe("You said: Hello there");
  });

  test("rejects unknown directives and invalid values", async () => {
    for (const wrong of [
      "latencie=3",
      "latency",
      "latency=soon",
      "usage=odd",
      "html=maybe",
      "status=600",
    ]) {
      const response = await send(CHAT_PATH, chatBody(`[[sim: ${wrong}]]`));
      expect(response.status).toBe(400);
      expect((await json(response)).error.message).toContain(wrong);
    }
  });
});

describe("faults on other wires", () => {
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
      (text) => ({ contents: [{ parts: [{ text: text }] }] }),
    ],
  ];
  test.each(cases)("%s stream", async (_, path, body) => {
    const run = async (directives: string) =>
      readAll(await send(path, body(`Hello there [[sim: ${directives}]]`)));
    expect((await run("cut=2")).isTruncated).toBe(true);
    expect((await run("fail=2")).text).toContain("Overloaded");
    const plain = await readAll(await send(path, body("Hello there")));
    const sendWithHeader = async (name: string, value: string) =>
      readAll(await send(path, body("Hello there"), { [`x-sim-${name}`]: value }));
    expect((await sendWithHeader("slice", "3")).text).toBe(plain.text);
    expect((await sendWithHeader("usage", "twice")).text.length).toBeGreaterThan(
      plain.text.length + 50,
    );
    expect((await run("usage=none")).text.toLowerCase()).not.toMatch(/"usage(metadata)?":\{/);
    expect((await run("flood=64")).text.length).toBeGreaterThan(65_536);
    expect((await run("keepalive")).text).toMatch(/keepalive|event: ping/);
    expect((await run("status=503")).text).toStartWith("{");
  });
});
