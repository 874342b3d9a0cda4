// Files: limits of an upload, isolation of accounts, malformed forms, and batches from files.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readUpload } from "../../src/batches/files/read-upload.ts";
import { readInTime } from "../../src/http/request/body.ts";
import { errorOf, type Json } from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { chatRequest, chatRequests, postBatch, waitForEnd } from "./batch-harness.ts";

const URL_PATH = "/v1/chat/completions";

function lineOf(request: object): string {
  return JSON.stringify({ method: "POST", url: URL_PATH, ...request });
}

for (const store of STORE_KINDS) {
  describe(`files on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const uploadForm = async (
      form: FormData,
      owner = account,
    ): Promise<{ readonly status: number; readonly json: Json }> => {
      const { authorization = "" } = owner.headers;
      const response = await fetch(`${gateway.url}/v1/files`, {
        method: "POST",
        headers: { authorization },
        body: form,
      });
      return { status: response.status, json: (await response.json()) as Json };
    };
    const formOf = (content: string | Uint8Array<ArrayBuffer>, purpose = "batch"): FormData => {
      const form = new FormData();
      form.set("purpose", purpose);
      form.set("file", new Blob([content]), "requests.jsonl");
      return form;
    };
    const upload = async (content: string, owner = account): Promise<string> => {
      const { status, json } = await uploadForm(formOf(content), owner);
      expect(status).toBe(200);
      return String(json["id"]);
    };

    test("belong to their account", async () => {
      const id = await upload(lineOf(chatRequest("a")));
      const other = await fundedAccount(gateway);
      for (const route of [
        `GET /v1/files/${id}`,
        `GET /v1/files/${id}/content`,
        `DELETE /v1/files/${id}`,
      ])
        expect([route, (await call(gateway, other, route)).status]).toEqual([route, 404]);
      expect((await call(gateway, other, "GET /v1/files")).json["data"]).toEqual([]);
      const foreign = await postBatch(gateway, other, { input_file_id: id });
      expect([foreign.status, errorOf(foreign.json)["param"]]).toEqual([404, "input_file_id"]);
      expect((await call(gateway, account, `DELETE /v1/files/${id}`)).json).toMatchObject({
        deleted: true,
      });
    });

    test("are stored encrypted", async () => {
      const id = await upload(lineOf(chatRequest("a", "a-secret-of-the-caller")));
      const { db } = gateway.server;
      const rows = await db.all("select sealed from stored_file_part where file_id = ?", [id]);
      expect(rows.length).toBe(1);
      expect(Buffer.from(rows[0]?.["sealed"] as Uint8Array).toString("latin1")).not.toContain(
        "a-secret-of-the-caller",
      );
    });

    test("expire", async () => {
      const form = formOf(lineOf(chatRequest("a")));
      form.set("expires_after[anchor]", "created_at");
      form.set("expires_after[seconds]", "3600");
      const { json } = await uploadForm(form);
      expect(Number(json["expires_at"]) - Number(json["created_at"])).toBe(3_600);
      await gateway.server.db.write((tx) =>
        tx.run("update stored_file set expires_at = 1 where id = ?", [String(json["id"])]),
      );
      expect((await call(gateway, account, `GET /v1/files/${String(json["id"])}`)).status).toBe(
        404,
      );
    });

    for (const [name, form, status] of [
      ["another purpose", formOf("{}", "assistants"), 400],
      ["no purpose", formOf("{}", ""), 400],
      ["an empty file", formOf(""), 400],
      ["bytes that are no UTF-8", formOf(new Uint8Array([0x7b, 0xff, 0x7d])), 400],
    ] as const)
      test(`refuse ${name}`, async () => {
        const before = await gateway.server.db.all("select id from stored_file");
        expect((await uploadForm(form)).status).toBe(status);
        expect(await gateway.server.db.all("select id from stored_file")).toEqual(before);
      });

    test("refuse a body that is no form", async () => {
      const { status, json } = await call(gateway, account, "POST /v1/files", { body: {} });
      expect([status, errorOf(json)["code"]]).toEqual([415, "unsupported_media_type"]);
    });

    test("refuse more files than the quota", async () => {
      const owner = await fundedAccount(gateway);
      await gateway.server.db.write(async (tx) => {
        for (let index = 0; index < 500; index++)
          await tx.run(
            `insert into stored_file (id, account_id, key_id, purpose, filename, bytes, parts, data_key, created_at, expires_at)
             values (?, ?, 'key_x', 'batch', 'x', 1, 0, '', 1, 9000000000000)`,
            [`file_${owner.id}_${index}`, owner.id],
          );
      });
      const { status, json } = await uploadForm(formOf("{}"), owner);
      expect([status, errorOf(json)["code"]]).toEqual([409, "conflict"]);
    });

    test("refuse more bytes than the quota", async () => {
      const owner = await fundedAccount(gateway);
      await gateway.server.db.write((tx) =>
        tx.run(
          `insert into stored_file (id, account_id, key_id, purpose, filename, bytes, parts, data_key, created_at, expires_at)
           values (?, ?, 'key_x', 'batch', 'x', ?, 0, '', 1, 9000000000000)`,
          [`file_${owner.id}`, owner.id, 1_073_741_825],
        ),
      );
      const { status, json } = await uploadForm(formOf("{}"), owner);
      expect([status, errorOf(json)["code"]]).toEqual([409, "conflict"]);
    });

    for (const [name, content] of [
      ["a line that is no JSON", "{"],
      ["a line that is a list", "[]"],
      ["another endpoint in a line", lineOf({ ...chatRequest("a"), url: "/v1/embeddings" })],
      ["an endpoint without batches in a line", lineOf({ ...chatRequest("a"), url: "/v1/keys" })],
      ["another method in a line", lineOf({ ...chatRequest("a"), method: "DELETE" })],
      ["a stream in a line", lineOf(chatRequest("a", "Hi", { stream: true }))],
      ["a repeated custom_id", [chatRequest("a"), chatRequest("a")].map(lineOf).join("\n")],
      ["a line without custom_id", lineOf({ body: {} })],
      ["10,001 lines", chatRequests(10_001).map(lineOf).join("\n")],
      ["only empty lines", "\n\n"],
      // To skip them takes time, in which nothing else runs.
      ["many empty lines", `${"\n".repeat(20_001)}${lineOf(chatRequest("a"))}`],
      [
        "a line that nests too deep",
        `{"custom_id":"a","body":{"messages":${"[".repeat(100)}${"]".repeat(100)}}}`,
      ],
    ] as const)
      test(`with ${name} make no batch`, async () => {
        const id = await upload(content);
        const { status, json } = await postBatch(gateway, account, { input_file_id: id });
        expect([status, errorOf(json)["code"]]).toEqual([400, "invalid_request"]);
        const { json: list } = await call(gateway, account, "GET /v1/batches");
        expect(list["data"]).toEqual([]);
      });

    test("with results are the output and the errors of a batch", async () => {
      const owner = await fundedAccount(gateway);
      const id = await upload(
        [chatRequest("good"), chatRequest("bad", "Hi", { model: "sim/nothing" })]
          .map(lineOf)
          .join("\n"),
        owner,
      );
      const created = await postBatch(gateway, owner, { input_file_id: id });
      const ended = await waitForEnd(gateway, owner, created.json["id"]);
      const contentOf = async (file: unknown): Promise<string> =>
        (
          await fetch(`${gateway.url}/v1/files/${String(file)}/content`, {
            headers: owner.headers,
          })
        ).text();
      expect(await contentOf(ended["output_file_id"])).toContain('"custom_id":"good"');
      expect(await contentOf(ended["error_file_id"])).toContain('"custom_id":"bad"');
      const again = await postBatch(gateway, owner, { input_file_id: ended["output_file_id"] });
      expect(again.status).toBe(400);
    });
  });
}

describe("the reader of an upload", () => {
  const read = async (
    text: string,
    size: number,
  ): Promise<{ readonly content: string; readonly purpose: string | undefined }> => {
    const bytes = Buffer.from(text, "latin1");
    async function* chunks(): AsyncGenerator<Uint8Array, void> {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    }
    let content = "";
    const { fields } = await readUpload(
      chunks(),
      'multipart/form-data; boundary="xx"',
      async (part) => void (content += Buffer.from(part).toString("latin1")),
    );
    return { content, purpose: fields.get("purpose") };
  };
  const FORM =
    '--xx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\none\r\n--x\r\ntwo\r\n--xx\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--xx--\r\n';

  test("reads the same however the body is cut", async () => {
    for (let size = 1; size <= FORM.length; size++)
      expect(await read(FORM, size)).toEqual({ content: "one\r\n--x\r\ntwo", purpose: "batch" });
  });

  test("is a 408 for a client that stalls, and a 400 for one that leaves", async () => {
    for (const [start, status] of [
      [() => {}, 408],
      [(stream: ReadableStreamDefaultController) => stream.error(new Error("reset")), 400],
    ] as const) {
      const body = new ReadableStream<Uint8Array>({ start });
      const refused = readUpload(
        readInTime(body, 1),
        'multipart/form-data; boundary="xx"',
        async () => {},
      );
      expect(await refused.catch((error: unknown) => error)).toMatchObject({ status });
    }
  });

  test("refuses every form that ends early", async () => {
    for (let length = 0; length < FORM.length - 4; length++)
      expect(read(FORM.slice(0, length), 7)).rejects.toThrow();
  });
});
