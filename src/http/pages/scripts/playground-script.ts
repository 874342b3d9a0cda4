// The script of the playground: builds the request of each API, streams the reply, and shows cost, tokens, times and code.

import { browserScript } from "./browser-script.ts";

export const PLAYGROUND_SCRIPT_SOURCE = browserScript([
  pathOf,
  readImage,
  requestBody,
  textOf,
  readEvents,
  codeFor,
  isJson,
  currentCsrf,
  signInLink,
  playgroundKey,
  showUsage,
  showStoppedUsage,
  showCall,
  offerCredits,
  showPrice,
  addTurn,
  refusal,
  runPlayground,
  startPlayground,
]);

interface PlaygroundRequest {
  readonly api: string;
  readonly body: Record<string, unknown>;
}

function pathOf(api: string): string {
  return api === "chat" ? "/v1/chat/completions" : `/v1/${api}`;
}

/** The chosen image as a data URL, or nothing. */
function readImage(form: HTMLFormElement): Promise<string | undefined> {
  const file = form.querySelector<HTMLInputElement>("#image")?.files?.[0];
  if (file === undefined) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () =>
      resolve(typeof reader.result === "string" ? reader.result : undefined),
    );
    reader.addEventListener("error", () => reject(new Error("The image cannot be read.")));
    reader.readAsDataURL(file);
  });
}

/** One message of a conversation. */
interface Turn {
  readonly role: "user" | "assistant";
  readonly content: string;
}

async function requestBody(
  form: HTMLFormElement,
  turns: readonly Turn[],
): Promise<PlaygroundRequest> {
  const value = (id: string): string =>
    form.querySelector<HTMLInputElement | HTMLTextAreaElement>(`#${id}`)?.value.trim() ?? "";
  const api = value("api");
  const [text, system, limit] = [value("message"), value("system"), Number(value("max-tokens"))];
  const image = await readImage(form);
  const common = {
    model: value("model"),
    stream: true,
    ...(value("temperature") === "" ? {} : { temperature: Number(value("temperature")) }),
    ...(value("tools") === "" ? {} : { tools: JSON.parse(value("tools")) }),
  };
  if (api === "responses") {
    const parts = [{ type: "input_text", text }];
    const content =
      image === undefined ? text : [...parts, { type: "input_image", image_url: image }];
    const instructions = system === "" ? {} : { instructions: system };
    const input = [...turns, { role: "user", content }];
    return {
      api,
      body: { ...common, ...instructions, max_output_tokens: limit, input, store: false },
    };
  }
  if (api === "messages") {
    const [, type, data] = /^data:([^;]+);base64,(.*)$/.exec(image ?? "") ?? [];
    const source = { type: "base64", media_type: type, data };
    const content =
      image === undefined
        ? text
        : [
            { type: "image", source },
            { type: "text", text },
          ];
    const messages = [...turns, { role: "user", content }];
    return {
      api,
      body: { ...common, ...(system === "" ? {} : { system }), max_tokens: limit, messages },
    };
  }
  const parts = [
    { type: "text", text },
    { type: "image_url", image_url: { url: image } },
  ];
  const messages = [
    ...(system === "" ? [] : [{ role: "system", content: system }]),
    ...turns,
    { role: "user", content: image === undefined ? text : parts },
  ];
  return { api, body: { ...common, max_tokens: limit, messages } };
}

/** The fields of the three APIs' stream events that carry text, tool calls and errors. */
interface StreamEvent {
  readonly type?: string;
  readonly delta?: string | StreamDelta;
  readonly choices?: readonly { readonly delta?: StreamDelta }[];
  readonly error?: { readonly message?: string };
}

interface StreamDelta {
  readonly content?: string | null;
  readonly text?: string;
  readonly partial_json?: string;
  readonly tool_calls?: readonly { readonly function?: { readonly arguments?: string } }[];
}

/** The text that an event adds to the reply; a tool call is shown as JSON. */
function textOf({ type = "", delta, choices = [] }: StreamEvent): string {
  if (typeof delta === "string")
    return /output_text\.delta$|function_call_arguments\.delta$/.test(type) ? delta : "";
  const added = delta ?? choices[0]?.delta ?? {};
  const calls = (added.tool_calls ?? []).map((call) => call.function?.arguments ?? "");
  return [added.content, added.text, added.partial_json, ...calls].join("");
}

async function readEvents(
  response: Response,
  onEvent: (data: string, event: StreamEvent) => void,
): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  const reader = response.body?.getReader();
  for (;;) {
    const { value: chunk, done = true } = (await reader?.read()) ?? {};
    if (done) return;
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const data = /^data: ?(.+?)\r?$/.exec(line)?.[1];
      if (data !== undefined && data !== "[DONE]") onEvent(data, JSON.parse(data));
    }
  }
}

/** Code that sends the same request, without streaming. */
function codeFor(language: string, baseUrl: string, request: PlaygroundRequest): string {
  const { stream: _stream, ...body } = request.body;
  const json = JSON.stringify(body, null, 2);
  const method = { chat: "chat.completions", responses: "responses", messages: "messages" }[
    request.api
  ];
  const isMessages = request.api === "messages";
  const [client, url] = isMessages ? ["Anthropic", baseUrl] : ["OpenAI", `${baseUrl}/v1`];
  if (language === "curl")
    return `curl -sS ${baseUrl}${pathOf(request.api)} \\\n  -H "authorization: Bearer $POSTERN_API_KEY" \\\n  -H 'content-type: application/json' \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  if (language === "Python")
    return `import json\nimport os\n\nfrom ${client.toLowerCase()} import ${client}\n\nclient = ${client}(base_url="${url}", api_key=os.environ["POSTERN_API_KEY"])\nbody = json.loads(r'''\n${json}\n''')\nprint(client.${method}.create(**body))`;
  const module = isMessages ? "@anthropic-ai/sdk" : "openai";
  const environment = ["process", "env", "POSTERN_API_KEY"].join(".");
  return `import ${client} from "${module}";\n\nconst client = new ${client}({ baseURL: "${url}", apiKey: ${environment} });\nconst reply = await client.${method}.create(${json});\nconsole.log(reply);`;
}

function isJson({ headers }: Response): boolean {
  return headers.get("content-type")?.includes("json") === true;
}

/** The form token of the session that began in another tab after this page was loaded. */
async function currentCsrf(): Promise<string> {
  // Without a session, the page redirects to the sign-in.
  const page = await fetch(location.href, { redirect: "manual" });
  const csrf = page.ok ? /data-csrf="([^"]+)"/.exec(await page.text())?.[1] : undefined;
  if (csrf !== undefined) return csrf;
  const ended = new Error(
    "Your session has ended. Sign in, then run it again: your input is kept.",
  );
  ended.name = "SessionEnded";
  throw ended;
}

/** In a tab of its own, so that the input of this one stays. */
function signInLink(): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = `/signin?return_to=${encodeURIComponent(location.pathname)}`;
  link.target = "_blank";
  link.textContent = "Sign in";
  return link;
}

/** The key of this tab, or a new one. */
async function playgroundKey(form: HTMLFormElement): Promise<string> {
  const { keyUrl = "" } = form.dataset;
  const stored = JSON.parse(sessionStorage.getItem(keyUrl) ?? "{}");
  if (Number(stored.expires_at) > Date.now() + 60_000) return stored.api_key;
  const create = (): Promise<Response> =>
    fetch(keyUrl, {
      method: "POST",
      body: new URLSearchParams({ csrf: form.dataset["csrf"] ?? "" }),
    });
  let response = await create();
  if (!isJson(response)) {
    form.dataset["csrf"] = await currentCsrf();
    response = await create();
  }
  if (!isJson(response)) throw new Error("No key could be created. Reload the page.");
  const created = await response.json();
  if (!response.ok) throw new Error(created.error ?? "No key could be created.");
  sessionStorage.setItem(keyUrl, JSON.stringify(created));
  return created.api_key;
}

/** Returns false if the call is not settled yet. */
async function showUsage(form: HTMLFormElement, requestId: string, key: string): Promise<boolean> {
  const response = await fetch(`/v1/usage/${requestId}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  if (!response.ok) return false;
  const { cost_usd: cost, usage } = await response.json();
  const figure = (name: string, text: string): void => {
    form.querySelector(`[data-figure=${name}]`)?.replaceChildren(text);
  };
  figure("cost", `$${Number(cost).toLocaleString("en-US", { maximumSignificantDigits: 3 })}`);
  figure("tokens", `${usage.input_tokens} / ${usage.output_tokens}`);
  const status = form.querySelector("[data-status]");
  status?.replaceChildren(`The call ended. It cost $${Number(cost)}.`);
  return true;
}

/** A stopped call is settled once the provider's usage is known, which can take some seconds. */
async function showStoppedUsage(form: HTMLFormElement): Promise<void> {
  const { requestId = "" } = form.dataset;
  const key = await playgroundKey(form);
  for (let tries = 0; tries < 60; tries++) {
    if (requestId === "" || form.dataset["requestId"] !== requestId) return;
    if (await showUsage(form, requestId, key)) return;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Links to the page of the call. */
function showCall(form: HTMLFormElement, requestId: string): void {
  form.dataset["requestId"] = requestId;
  const link = form.querySelector<HTMLAnchorElement>("[data-call]");
  if (link === null) return;
  link.hidden = requestId === "";
  link.href = `${form.dataset["logsUrl"]}/${requestId}`;
}

interface ErrorFields {
  readonly code?: string;
  readonly message?: string;
  readonly required_credits?: number;
  readonly available_credits?: number;
}

/** Offers to buy what the balance lacks. */
function offerCredits(form: HTMLFormElement, error: ErrorFields): void {
  const link = form.querySelector<HTMLAnchorElement>("[data-buy]");
  if (link === null) return;
  link.hidden = error.code !== "insufficient_credits";
  const missing = ((error.required_credits ?? 0) - (error.available_credits ?? 0)) / 1e6;
  const amount = Math.max(Number(link.dataset["buy"]), Math.ceil(missing));
  link.textContent = `Buy $${amount} of credits`;
  link.href = `${form.dataset["buyUrl"]}?amount_usd=${amount}`;
}

interface PricedModel {
  readonly id: string;
  readonly pricing: Readonly<Record<string, unknown>>;
}

function showPrice(form: HTMLFormElement, models: readonly PricedModel[]): void {
  const id = form.querySelector<HTMLInputElement>("#model")?.value;
  const pricing = models.find((model) => model.id === id)?.pricing;
  const usd = (name: string): string =>
    `$${(Number(pricing?.[name]) * 1e6).toLocaleString("en-US", { maximumFractionDigits: 4 })}`;
  const text =
    pricing?.["prompt"] === undefined
      ? ""
      : `${usd("prompt")} input, ${usd("completion")} output per million tokens`;
  form.querySelector("[data-price]")?.replaceChildren(text);
}

/** Shows a turn of the conversation above the reply. */
function addTurn(form: HTMLFormElement, { role, content }: Turn): void {
  const shown = document.createElement("p");
  const name = document.createElement("b");
  name.textContent = role === "user" ? "You" : "Reply";
  shown.append(name, document.createElement("br"), content);
  form.querySelector("[data-turns]")?.append(shown);
}

/** Shows why a request was refused, and what helps. */
async function refusal(form: HTMLFormElement, response: Response): Promise<Error> {
  const text = await response.text();
  form.querySelector("[data-events]")?.append(text);
  if (response.status === 401) sessionStorage.removeItem(form.dataset["keyUrl"] ?? "");
  const { error } = JSON.parse(text);
  offerCredits(form, error ?? {});
  return new Error(error?.message ?? `Status ${response.status}`);
}

async function runPlayground(
  form: HTMLFormElement,
  turns: readonly Turn[],
  signal: AbortSignal,
): Promise<readonly Turn[]> {
  const reply = form.querySelector("[data-reply]");
  const events = form.querySelector("[data-events]");
  const figure = (name: string, text: string): void => {
    form.querySelector(`[data-figure=${name}]`)?.replaceChildren(text);
  };
  for (const name of ["cost", "tokens", "first", "latency"]) figure(name, "–");
  reply?.replaceChildren("");
  events?.replaceChildren("");
  showCall(form, "");
  const { api, body } = await requestBody(form, turns);
  const key = await playgroundKey(form);
  const startedAt = performance.now();
  const response = await fetch(pathOf(api), {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    credentials: "omit",
    signal,
  });
  if (!response.ok) throw await refusal(form, response);
  const requestId = response.headers.get("x-request-id") ?? "";
  showCall(form, requestId);
  let failure = "";
  let isFirst = true;
  await readEvents(response, (data, event) => {
    const text = textOf(event);
    if (isFirst && text !== "") figure("first", `${Math.round(performance.now() - startedAt)} ms`);
    if (text !== "") isFirst = false;
    failure ||= event.error?.message ?? "";
    reply?.append(text);
    events?.append(`${data}\n`);
  });
  figure("latency", `${Math.round(performance.now() - startedAt)} ms`);
  await showUsage(form, requestId, key);
  if (failure !== "") throw new Error(failure);
  const message = form.querySelector<HTMLTextAreaElement>("#message");
  return [
    { role: "user", content: message?.value.trim() ?? "" },
    { role: "assistant", content: reply?.textContent ?? "" },
  ];
}

function startPlayground(): void {
  const form = document.querySelector<HTMLFormElement>("form.playground");
  const error = form?.querySelector<HTMLElement>("[data-error]");
  const stop = form?.querySelector<HTMLButtonElement>("button[name=stop]");
  const keep = form?.querySelector<HTMLInputElement>("#conversation");
  if (!form || !error || !stop || !keep) return;
  let turns: readonly Turn[] = [];
  let models: readonly PricedModel[] = [];
  const showCode = async (): Promise<void> => {
    const language = form.querySelector<HTMLSelectElement>("#language")?.value ?? "curl";
    const request = await requestBody(form, turns).catch(() => undefined);
    if (request === undefined) return;
    const code = codeFor(language, form.dataset["baseUrl"] ?? "", request);
    form.querySelector("[data-code]")?.replaceChildren(code);
  };
  form.addEventListener("input", () => {
    showPrice(form, models);
    void showCode();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  keep.addEventListener("change", () => {
    turns = [];
    form.querySelector("[data-turns]")?.replaceChildren();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const controller = new AbortController();
    error.hidden = true;
    stop.hidden = false;
    stop.onclick = () => controller.abort();
    offerCredits(form, {});
    runPlayground(form, turns, controller.signal)
      .then((added) => {
        if (!keep.checked) return;
        turns = [...turns, ...added];
        for (const turn of added) addTurn(form, turn);
        form.querySelector("[data-reply]")?.replaceChildren();
        const message = form.querySelector<HTMLTextAreaElement>("#message");
        if (message) message.value = "";
        message?.focus();
      })
      .catch((cause: unknown) => {
        if (controller.signal.aborted) {
          void showStoppedUsage(form);
          return;
        }
        error.textContent = cause instanceof Error ? cause.message : "The request failed.";
        if (cause instanceof Error && cause.name === "SessionEnded")
          error.append(" ", signInLink());
        error.hidden = false;
      })
      .finally(() => {
        stop.hidden = true;
      });
  });
  void showCode();
  void fetch("/v1/models")
    .then((response) => response.json())
    .then(({ data }: { data: PricedModel[] }) => {
      models = data;
      showPrice(form, models);
      const options = data.map(({ id }) => new Option(id, id));
      form.querySelector("datalist")?.replaceChildren(...options);
    });
}
