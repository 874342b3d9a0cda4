// URLs of images and documents in requests to Bedrock, whose API takes only bytes: the gateway fetches them.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createFetchFile, type FetchFile } from "../../src/inference/media/fetch-file.ts";
import { type FileServer, PDF, PNG, startFileServer } from "../support/file-server.ts";
import {
  type Api,
  callApi,
  expensiveModelOn,
  type Harness,
  type Json,
  modelOn,
  startHarness,
} from "./support/harness.ts";

const MODEL = modelOn("converse");
const FILES_PER_MINUTE = 60;

/** Public, so that it may be sent to a provider; the test's server has its files. */
const ORIGIN = "https://files.example.com";
const fetchLocally: FetchFile = (request) =>
  fetchFile({ ...request, url: request.url.replace(ORIGIN, files.url) });
const fetchFile = createFetchFile({ resolve: async () => ["127.0.0.1"], allowLoopback: true });

let files: FileServer;
let harness: Harness;
beforeAll(async () => {
  files = startFileServer(({ pathname, search }) => {
    if (pathname === "/redirect") return Response.redirect(`${files.url}/cat.png`, 302);
    if (pathname.startsWith("/cat")) return new Response(PNG);
    if (pathname === "/page.pdf") return new Response(PDF);
    if (pathname === "/notes.txt")
      return new Response("notes", { headers: { "content-type": "text/plain; charset=utf-8" } });
    if (pathname === "/program")
      return new Response("\u{7f}ELF\0", { headers: { "content-type": "image/png" } });
    if (pathname.startsWith("/photo"))
      return new Response(Buffer.concat([PNG, Buffer.alloc(3_700_000)]));
    if (pathname === "/large") return new Response(Buffer.concat([PNG, Buffer.alloc(3_750_000)]));
    return new Response(`nothing at ${pathname}${search}`, { status: 404 });
  });
  harness = await startHarness({
    fetchFile: fetchLocally,
    env: { POSTERN_FETCHED_FILES_PER_MINUTE: String(FILES_PER_MINUTE) },
  });
});
afterEach(() => {
  files.requested.splice(0);
  harness.providerResponse = undefined;
});
afterAll(async () => {
  await harness.stop();
  await files.close();
});

const urlImage = (path: string): Json => ({
  type: "image_url",
  image_url: { url: ORIGIN + path },
});
const chatBody = (...content: Json[]): Json => ({
  model: MODEL,
  messages: [{ role: "user", content: [...content, { type: "text", text: "What is it?" }] }],
});
const sentBody = (): string => JSON.stringify(harness.upstreamRequests.at(-1)?.body);
const image = PNG.toString("base64");

function bodyWith(api: Api): Json {
  const [cat, page] = [`${ORIGIN}/cat.png`, `${ORIGIN}/page.pdf`];
  if (api === "chat")
    return chatBody(urlImage("/cat.png"), { type: "file", file: { file_data: page } });
  if (api === "responses")
    return {
      model: MODEL,
      input: [
        {
          role: "user",
          content: [
            { type: "input_image", image_url: cat },
            { type: "input_file", file_url: page },
            { type: "input_text", text: "What is it?" },
          ],
        },
      ],
    };
  const content = [
    { type: "image", source: { type: "url", url: cat } },
    { type: "document", source: { type: "url", url: page } },
    { type: "text", text: "What is it?" },
  ];
  return { model: MODEL, max_tokens: 100, messages: [{ role: "user", content }] };
}

describe("URLs in requests to Bedrock", () => {
  for (const api of ["chat", "responses", "messages"] as const)
    test(`are sent as bytes, over ${api}`, async () => {
      const { status, text } = await callApi(harness, api, bodyWith(api));
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
      expect(sentBody()).toContain(`{"format":"png","source":{"bytes":"${image}"}}`);
      expect(sentBody()).toContain(`"format":"pdf","source":{"bytes":"${PDF.toString("base64")}"}`);
      expect(files.requested.toSorted()).toEqual(["/cat.png", "/page.pdf"]);
      expect(files.userAgents.at(-1)).toBe("Postern-Fetch");
    });

  test("are sent as bytes from tool results, and as text", async () => {
    const result = { type: "image", source: { type: "url", url: `${ORIGIN}/cat.png` } };
    const { status } = await callApi(harness, "messages", {
      model: MODEL,
      max_tokens: 100,
      tools: [{ name: "Read", input_schema: { type: "object", properties: {} } }],
      messages: [
        { role: "user", content: "Read it." },
        { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "Read", input: {} }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "t1", content: [result] },
            { type: "document", source: { type: "url", url: `${ORIGIN}/notes.txt` } },
            { type: "text", text: "What is it?" },
          ],
        },
      ],
    });
    expect(status).toBe(200);
    expect(sentBody()).toContain(`{"bytes":"${image}"}`);
    expect(sentBody()).toContain(`{"bytes":"${Buffer.from("notes").toString("base64")}"}`);
  });

  test("are fetched once, also if a second model is tried", async () => {
    harness.providerResponse = () => new Response("{}", { status: 500 });
    const body = chatBody(urlImage("/cat.png"), urlImage("/cat.png"));
    const models = [expensiveModelOn("converse")];
    const before = harness.upstreamRequests.length;
    const { status } = await callApi(harness, "chat", { ...body, models });
    expect(status).toBe(500);
    const paths = harness.upstreamRequests.slice(before).map(({ path }) => path);
    expect(new Set(paths).size).toBe(2);
    expect(files.requested).toEqual(["/cat.png"]);
  });

  test("are not fetched for a provider that takes URLs", async () => {
    const image = { type: "image_url", image_url: { url: "https://example.com/cat.png" } };
    const { status } = await callApi(harness, "chat", {
      ...chatBody(image),
      model: modelOn("chat"),
    });
    expect([status, files.requested]).toEqual([200, []]);
    expect(sentBody()).toContain("https://example.com/cat.png");
  });

  test("are not fetched for an account without credits", async () => {
    const account = harness.unfundedAccount;
    const response = await fetch(`${harness.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        ...chatBody(urlImage("/cat.png")),
        model: expensiveModelOn("converse"),
      }),
    });
    expect([response.status, files.requested]).toEqual([402, []]);
  });

  test("are followed through redirects", async () => {
    const { status } = await callApi(harness, "chat", chatBody(urlImage("/redirect")));
    expect([status, files.requested]).toEqual([200, ["/redirect", "/cat.png"]]);
  });

  for (const [path, reason] of [
    ["/missing.png", "its server returned 404"],
    ["/program", "is not an image, a PDF or text"],
    ["/large", "is larger than 3.75 MB"],
    ["/page.pdf", "accepts image input only in these formats"],
  ] as const)
    test(`cause a 400 that names the field for ${path}`, async () => {
      const { status, json } = await callApi(harness, "chat", chatBody(urlImage(path)));
      const { message, param } = json["error"] as Json;
      expect([status, param]).toEqual([400, "messages[0].content[0]"]);
      expect(message).toContain(reason);
    });

  test("of private networks are refused without a request", async () => {
    for (const url of ["https://10.0.0.1/a.png", "https://db/a.png", `${files.url}/cat.png`]) {
      const content = { type: "image_url", image_url: { url } };
      const { status, text } = await callApi(harness, "chat", chatBody(content));
      expect([status, files.requested]).toEqual([400, []]);
      expect(text).toContain("in a private network");
    }
  });

  test("above 20 are refused", async () => {
    const many = Array.from({ length: 21 }, (_, index) => urlImage(`/cat${index}.png`));
    const { status, text } = await callApi(harness, "chat", chatBody(...many));
    expect([status, files.requested.length]).toEqual([400, 20]);
    expect(text).toContain("at most 20 files");
  });

  test("above 20 MB together are refused, and free their share of the quota of bodies", async () => {
    const photos = Array.from({ length: 6 }, (_, index) => urlImage(`/photo${index}.png`));
    const { status, text } = await callApi(harness, "chat", chatBody(...photos));
    expect(status).toBe(413);
    expect(text).toContain("at most 20 MB of files");
    const metrics = await (await fetch(`${harness.gateway.url}/metrics`)).text();
    expect(metrics).toContain("postern_request_body_bytes 0\n");
  });

  test("count towards a limit of the account", async () => {
    const statuses: number[] = [];
    while (statuses.length <= FILES_PER_MINUTE && statuses.at(-1) !== 429) {
      const { status } = await callApi(harness, "chat", chatBody(urlImage("/cat.png")));
      statuses.push(status);
    }
    expect(statuses.at(-1)).toBe(429);
    expect(statuses.slice(0, -1).every((status) => status === 200)).toBe(true);
  });
});

test("no URL is fetched where the setting is 0", async () => {
  const other = await startHarness({
    fetchFile: fetchLocally,
    env: { POSTERN_FETCHED_FILES_PER_MINUTE: "0" },
  });
  const { status } = await callApi(other, "chat", chatBody(urlImage("/cat.png")));
  await other.stop();
  expect([status, files.requested]).toEqual([400, []]);
});
