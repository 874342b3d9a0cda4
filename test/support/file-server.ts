// A web server with images and documents, which counts the requests that it gets.

import type { FetchFile } from "../../src/inference/media/fetch-file.ts";

export interface FileServer {
  readonly url: string;
  /** The paths of all requests. */
  readonly requested: string[];
  readonly userAgents: (string | null)[];
  readonly close: () => Promise<void>;
}

export type FileResponse = (url: URL) => Response | Promise<Response>;

export const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==",
  "base64",
);
export const PDF = Buffer.from("%PDF-1.4\n%%EOF\n");

/** Instead of requests to the Internet: every URL is an image, or a PDF by its name. */
export const fetchWithoutNetwork: FetchFile = async ({ url, kind }) => {
  const isPdf = kind === "document" || url.endsWith(".pdf");
  const [mediaType, body] = isPdf ? ["application/pdf", PDF] : ["image/png", PNG];
  return { mediaType, data: body.toString("base64") };
};

export function startFileServer(respond: FileResponse): FileServer {
  const requested: string[] = [];
  const userAgents: (string | null)[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: (request) => {
      const url = new URL(request.url);
      requested.push(url.pathname + url.search);
      userAgents.push(request.headers.get("user-agent"));
      return respond(url);
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    requested,
    userAgents,
    close: () => server.stop(true),
  };
}
