// The script of the playground: sends a message to one model or to two side by side, and shows replies, cost, tokens and times.

import { browserScript } from "./browser-script.ts";
import {
  imagesOf,
  partsOf,
  readEvents,
  showAudio,
  showImage,
  showMarkdown,
  textOf,
} from "./playground-reply.ts";
import {
  codeFor,
  fieldValue,
  geminiBody,
  geminiCode,
  pathOf,
  readImage,
  requestBody,
  sentBody,
  type Turn,
} from "./playground-request.ts";

export const PLAYGROUND_SCRIPT_SOURCE = browserScript([
  pathOf,
  sentBody,
  readImage,
  fieldValue,
  requestBody,
  geminiBody,
  geminiCode,
  codeFor,
  partsOf,
  textOf,
  imagesOf,
  showImage,
  showAudio,
  showMarkdown,
  readEvents,
  isJson,
  currentCsrf,
  signInLink,
  createKey,
  playgroundKey,
  showUsage,
  showStoppedUsage,
  showCall,
  offerCredits,
  showPrices,
  chooseApi,
  showText,
  showTextOnFrame,
  addTurn,
  refusal,
  showFailure,
  setFigure,
  clearRun,
  callModel,
  runModel,
  runPlayground,
  showCode,
  showRuns,
  startPlayground,
]);

/** A model with its part of the page. */
interface ModelRun {
  readonly element: HTMLElement;
  /** The id of the field with the model. */
  readonly field: string;
  turns: readonly Turn[];
  text: string;
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

async function createKey(form: HTMLFormElement): Promise<string> {
  const { keyUrl = "" } = form.dataset;
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

/** The key of this tab, or a new one. */
async function playgroundKey(form: HTMLFormElement): Promise<string> {
  const stored = JSON.parse(sessionStorage.getItem(form.dataset["keyUrl"] ?? "") ?? "{}");
  if (Number(stored.expires_at) > Date.now() + 60_000) return stored.api_key;
  return await createKey(form);
}

function setFigure(run: ModelRun, name: string, text: string): void {
  run.element.querySelector(`[data-figure=${name}]`)?.replaceChildren(text);
}

/** Returns false if the call is not settled yet. */
async function showUsage(run: ModelRun, requestId: string, key: string): Promise<boolean> {
  const response = await fetch(`/v1/usage/${requestId}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  if (!response.ok) return false;
  const { cost_usd: cost, usage } = await response.json();
  const shown = Number(cost).toLocaleString("en-US", { maximumSignificantDigits: 3 });
  setFigure(run, "cost", `$${shown}`);
  setFigure(run, "tokens", `${usage.input_tokens} / ${usage.output_tokens}`);
  const status = run.element.querySelector("[data-status]");
  status?.replaceChildren(`The call ended. It cost $${Number(cost)}.`);
  return true;
}

/** A stopped call is settled once the provider's usage is known, which can take some seconds. */
async function showStoppedUsage(form: HTMLFormElement, run: ModelRun): Promise<void> {
  const { requestId = "" } = run.element.dataset;
  const key = await playgroundKey(form);
  for (let tries = 0; tries < 60; tries++) {
    if (requestId === "" || run.element.dataset["requestId"] !== requestId) return;
    if (await showUsage(run, requestId, key)) return;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Links to the page of the call. */
function showCall(form: HTMLFormElement, { element }: ModelRun, requestId: string): void {
  element.dataset["requestId"] = requestId;
  const link = element.querySelector<HTMLAnchorElement>("[data-call]");
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
function offerCredits(form: HTMLFormElement, { element }: ModelRun, error: ErrorFields): void {
  const link = element.querySelector<HTMLAnchorElement>("[data-buy]");
  if (link === null) return;
  link.hidden = error.code !== "insufficient_credits";
  const missing = ((error.required_credits ?? 0) - (error.available_credits ?? 0)) / 1e6;
  const amount = Math.max(Number(link.dataset["buy"]), Math.ceil(missing));
  link.textContent = `Buy $${amount} of credits`;
  link.href = `${form.dataset["buyUrl"]}?amount_usd=${amount}`;
}

interface ListedModel {
  readonly id: string;
  readonly pricing: Readonly<Record<string, unknown>>;
  readonly output_modalities: readonly string[];
}

function showPrices(form: HTMLFormElement, models: readonly ListedModel[]): void {
  for (const shown of form.querySelectorAll<HTMLElement>("[data-price]")) {
    const id = fieldValue(form, shown.dataset["price"] ?? "");
    const pricing = models.find((model) => model.id === id)?.pricing;
    const usd = (name: string): string =>
      `$${(Number(pricing?.[name]) * 1e6).toLocaleString("en-US", { maximumFractionDigits: 4 })}`;
    const units = ["image_generation", "megapixel", "audio_second", "character", "search_unit"];
    const unit = units.find((name) => pricing?.[name] !== undefined && pricing["prompt"] === "0");
    const text =
      pricing?.["prompt"] === undefined
        ? ""
        : unit === undefined
          ? `${usd("prompt")} input, ${usd("completion")} output per million tokens`
          : `$${String(pricing[unit])} per ${unit.replace("_generation", "").replaceAll("_", " ")}`;
    shown.replaceChildren(text);
  }
}

/** A model that returns only images or audio is called with its own API, and no other model is. */
function chooseApi(form: HTMLFormElement, models: readonly ListedModel[]): void {
  const api = form.querySelector<HTMLSelectElement>("#api");
  const model = models.find(({ id }) => id === fieldValue(form, "model"));
  if (api === null || model === undefined) return;
  const { output_modalities: returns } = model;
  const isOnly = (kind: string): boolean => returns.includes(kind) && !returns.includes("text");
  const wanted = isOnly("image") ? "images" : isOnly("audio") ? "speech" : "chat";
  const isMedia = api.value === "images" || api.value === "speech";
  if (wanted !== "chat" || isMedia) api.value = wanted;
}

function showText(form: HTMLFormElement, { element, text }: ModelRun): void {
  const reply = element.querySelector("[data-reply]");
  if (reply === null) return;
  const isMarkdown = form.querySelector<HTMLInputElement>("#markdown")?.checked === true;
  reply.classList.toggle("markdown", isMarkdown);
  if (isMarkdown) showMarkdown(reply, text);
  else reply.replaceChildren(text);
}

/** Markdown is parsed from its start again, so at most once a frame. */
function showTextOnFrame(form: HTMLFormElement, run: ModelRun): void {
  if (run.element.dataset["frame"] === "pending") return;
  run.element.dataset["frame"] = "pending";
  requestAnimationFrame(() => {
    run.element.dataset["frame"] = "";
    showText(form, run);
  });
}

/** Shows a turn of the conversation above the reply. */
function addTurn(form: HTMLFormElement, { element }: ModelRun, { role, content }: Turn): void {
  const shown = document.createElement("div");
  const name = document.createElement("b");
  name.textContent = role === "user" ? "You" : "Reply";
  const body = document.createElement("div");
  const isMarkdown = form.querySelector<HTMLInputElement>("#markdown")?.checked === true;
  if (role === "assistant" && isMarkdown) {
    body.className = "markdown";
    showMarkdown(body, content);
  } else body.append(content);
  shown.append(name, body);
  element.querySelector("[data-turns]")?.append(shown);
}

/** Shows why a request was refused, and what helps. */
async function refusal(form: HTMLFormElement, run: ModelRun, response: Response): Promise<Error> {
  const text = await response.text();
  run.element.querySelector("[data-events]")?.append(text);
  if (response.status === 401) sessionStorage.removeItem(form.dataset["keyUrl"] ?? "");
  const { error } = JSON.parse(text);
  offerCredits(form, run, error ?? {});
  return new Error(error?.message ?? `Status ${response.status}`);
}

function showFailure({ element }: ModelRun, cause: unknown): void {
  const error = element.querySelector<HTMLElement>("[data-error]");
  if (error === null) return;
  error.textContent = cause instanceof Error ? cause.message : "The request failed.";
  if (cause instanceof Error && cause.name === "SessionEnded") error.append(" ", signInLink());
  error.hidden = false;
}

function clearRun(form: HTMLFormElement, run: ModelRun): void {
  for (const name of ["cost", "tokens", "first", "latency"]) setFigure(run, name, "–");
  for (const name of ["reply", "images", "events", "status"])
    run.element.querySelector(`[data-${name}]`)?.replaceChildren("");
  const error = run.element.querySelector<HTMLElement>("[data-error]");
  if (error !== null) error.hidden = true;
  run.text = "";
  offerCredits(form, run, {});
  showCall(form, run, "");
}

async function callModel(
  form: HTMLFormElement,
  run: ModelRun,
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
): Promise<void> {
  const request = await requestBody(form, fieldValue(form, run.field), run.turns);
  const events = run.element.querySelector("[data-events]");
  const images = run.element.querySelector("[data-images]");
  const startedAt = performance.now();
  const sinceStart = (): string => `${Math.round(performance.now() - startedAt)} ms`;
  const response = await fetch(pathOf(request, true), {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(sentBody(request)),
    credentials: "omit",
    signal,
  });
  if (!response.ok) throw await refusal(form, run, response);
  const requestId = response.headers.get("x-request-id") ?? "";
  showCall(form, run, requestId);
  let failure = "";
  const isAudio = response.headers.get("content-type")?.startsWith("audio/") === true;
  if (isAudio) images?.append(showAudio(await response.blob()));
  else
    await readEvents(response, (data, event) => {
      const text = textOf(event);
      if (run.text === "" && text !== "") setFigure(run, "first", sinceStart());
      failure ||= event.error?.message ?? "";
      run.text += text;
      if (text !== "") showTextOnFrame(form, run);
      images?.append(...imagesOf(event).map(showImage));
      events?.append(`${data}\n`);
    });
  showText(form, run);
  setFigure(run, "latency", sinceStart());
  await showUsage(run, requestId, key);
  if (failure !== "") throw new Error(failure);
}

/** Calls the model and keeps the turns if the conversation goes on. Returns false if the call failed. */
async function runModel(
  form: HTMLFormElement,
  run: ModelRun,
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
): Promise<boolean> {
  try {
    const content = fieldValue(form, "message");
    await callModel(form, run, { key, signal });
    const added: readonly Turn[] = [
      { role: "user", content },
      { role: "assistant", content: run.text },
    ];
    if (form.querySelector<HTMLInputElement>("#conversation")?.checked !== true) return true;
    run.turns = [...run.turns, ...added];
    for (const turn of added) addTurn(form, run, turn);
    run.element.querySelector("[data-reply]")?.replaceChildren();
    return true;
  } catch (cause) {
    if (signal.aborted) void showStoppedUsage(form, run);
    else showFailure(run, cause);
    return false;
  }
}

async function runPlayground(form: HTMLFormElement, runs: readonly ModelRun[]): Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const stop = form.querySelector<HTMLButtonElement>("button[name=stop]");
  const [first] = runs;
  if (stop === null || first === undefined) return;
  for (const run of runs) clearRun(form, run);
  stop.hidden = false;
  stop.onclick = () => controller.abort();
  try {
    const key = await playgroundKey(form);
    const results = await Promise.all(runs.map((run) => runModel(form, run, { key, signal })));
    const message = form.querySelector<HTMLTextAreaElement>("#message");
    const isKept = form.querySelector<HTMLInputElement>("#conversation")?.checked === true;
    if (!isKept || message === null || results.includes(false)) return;
    message.value = "";
    message.focus();
  } catch (cause) {
    showFailure(first, cause);
  } finally {
    stop.hidden = true;
  }
}

async function showCode(form: HTMLFormElement, [run]: readonly ModelRun[]): Promise<void> {
  if (run === undefined) return;
  const model = fieldValue(form, run.field);
  const request = await requestBody(form, model, run.turns).catch(() => undefined);
  if (request === undefined) return;
  const code = codeFor(fieldValue(form, "language"), form.dataset["baseUrl"] ?? "", request);
  form.querySelector("[data-code]")?.replaceChildren(code);
}

/** Shows a part of the page for each model, under its name if there are two. */
function showRuns(form: HTMLFormElement, all: readonly ModelRun[]): readonly ModelRun[] {
  const shown = all.filter((run, index) => index === 0 || fieldValue(form, run.field) !== "");
  for (const run of all) {
    run.element.hidden = !shown.includes(run);
    const title = shown.length === 1 ? "Reply" : fieldValue(form, run.field);
    run.element.querySelector("h2")?.replaceChildren(title);
  }
  return shown;
}

function startPlayground(): void {
  const form = document.querySelector<HTMLFormElement>("form.playground");
  if (form === null) return;
  const all = [...form.querySelectorAll<HTMLElement>("[data-run]")].map((element): ModelRun => {
    const { run: field = "" } = element.dataset;
    return { element, field, turns: [], text: "" };
  });
  let models: readonly ListedModel[] = [];
  form.addEventListener("input", (event) => {
    const { target } = event;
    showPrices(form, models);
    if (target instanceof HTMLInputElement && target.id === "model") chooseApi(form, models);
    const runs = showRuns(form, all);
    void showCode(form, runs);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.querySelector("#conversation")?.addEventListener("change", () => {
    for (const run of all) {
      run.turns = [];
      run.element.querySelector("[data-turns]")?.replaceChildren();
    }
  });
  form.querySelector("#markdown")?.addEventListener("change", () => {
    for (const run of all) if (run.text !== "") showText(form, run);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void runPlayground(form, showRuns(form, all));
  });
  void showCode(form, showRuns(form, all));
  void fetch("/v1/models")
    .then((response) => response.json())
    .then(({ data }: { data: ListedModel[] }) => {
      models = data;
      showPrices(form, models);
      const options = data.map(({ id }) => new Option(id, id));
      form.querySelector("datalist")?.replaceChildren(...options);
    });
}
