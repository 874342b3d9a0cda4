// The requests of the playground: the body for each API, and the code that sends it.

export interface PlaygroundRequest {
  readonly api: string;
  readonly body: Record<string, unknown>;
}

/** One message of a conversation. */
export interface Turn {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/** Google's API has the model and the choice of a stream in its path. */
export function pathOf({ api, body }: PlaygroundRequest, isStream: boolean): string {
  if (api === "images") return "/v1/images/generations";
  if (api === "speech") return "/v1/audio/speech";
  if (api !== "gemini") return api === "chat" ? "/v1/chat/completions" : `/v1/${api}`;
  const method = isStream ? "streamGenerateContent?alt=sse" : "generateContent";
  return `/v1beta/models/${String(body["model"])}:${method}`;
}

/** What is sent: the model of Google's API is in the path. */
export function sentBody({ api, body }: PlaygroundRequest): Record<string, unknown> {
  if (api !== "gemini") return body;
  const { model: _model, ...sent } = body;
  return sent;
}

/** The chosen image as a data URL, or nothing. */
export function readImage(form: HTMLFormElement): Promise<string | undefined> {
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

export function fieldValue(form: HTMLFormElement, id: string): string {
  const field = form.querySelector<HTMLInputElement | HTMLTextAreaElement>(`#${id}`);
  return field?.value.trim() ?? "";
}

export async function requestBody(
  form: HTMLFormElement,
  model: string,
  turns: readonly Turn[],
): Promise<PlaygroundRequest> {
  const value = (id: string): string => fieldValue(form, id);
  const api = value("api");
  const [text, system, limit] = [value("message"), value("system"), Number(value("max-tokens"))];
  if (api === "images") return { api, body: { model, prompt: text } };
  if (api === "speech") return { api, body: { model, input: text, voice: "alloy" } };
  const image = await readImage(form);
  if (api === "gemini") return { api, body: geminiBody(value, model, { turns, image }) };
  const common = {
    model,
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

interface Conversation {
  readonly turns: readonly Turn[];
  readonly image: string | undefined;
}

export function geminiBody(
  value: (id: string) => string,
  model: string,
  { turns, image }: Conversation,
): Record<string, unknown> {
  const [, mimeType, data] = /^data:([^;]+);base64,(.*)$/.exec(image ?? "") ?? [];
  const asked = [
    ...(image === undefined ? [] : [{ inlineData: { mimeType, data } }]),
    { text: value("message") },
  ];
  const contents = [
    ...turns.map(({ role, content }) => ({
      role: role === "user" ? "user" : "model",
      parts: [{ text: content }],
    })),
    { role: "user", parts: asked },
  ];
  const [system, temperature, tools] = [value("system"), value("temperature"), value("tools")];
  return {
    model,
    ...(system === "" ? {} : { systemInstruction: { parts: [{ text: system }] } }),
    contents,
    generationConfig: {
      maxOutputTokens: Number(value("max-tokens")),
      ...(temperature === "" ? {} : { temperature: Number(temperature) }),
    },
    ...(tools === "" ? {} : { tools: JSON.parse(tools) }),
  };
}

/** Google's SDK has the settings of a request in one object. */
export function geminiCode(language: string, baseUrl: string, { body }: PlaygroundRequest): string {
  const { model, contents, generationConfig, ...rest } = body;
  const config = { ...(generationConfig as object), ...rest };
  const [turns, settings] = [contents, config].map((part) => JSON.stringify(part, null, 2));
  if (language === "Python")
    return `import json\nimport os\n\nfrom google import genai\n\nclient = genai.Client(api_key=os.environ["POSTERN_API_KEY"], http_options={"base_url": "${baseUrl}"})\ncontents = json.loads(r'''\n${turns}\n''')\nconfig = json.loads(r'''\n${settings}\n''')\nprint(client.models.generate_content(model="${String(model)}", contents=contents, config=config))`;
  const environment = ["process", "env", "POSTERN_API_KEY"].join(".");
  return `import { GoogleGenAI } from "@google/genai";\n\nconst client = new GoogleGenAI({ apiKey: ${environment}, httpOptions: { baseUrl: "${baseUrl}" } });\nconst reply = await client.models.generateContent({\n  model: "${String(model)}",\n  contents: ${turns},\n  config: ${settings},\n});\nconsole.log(reply.text);`;
}

/** Code that sends the same request, without streaming. */
export function codeFor(language: string, baseUrl: string, request: PlaygroundRequest): string {
  const { stream: _stream, ...body } = sentBody(request);
  const json = JSON.stringify(body, null, 2);
  const method = {
    chat: "chat.completions.create",
    responses: "responses.create",
    messages: "messages.create",
    images: "images.generate",
    speech: "audio.speech.create",
  }[request.api];
  const isMessages = request.api === "messages";
  const [client, url] = isMessages ? ["Anthropic", baseUrl] : ["OpenAI", `${baseUrl}/v1`];
  if (language === "curl")
    return `curl -sS ${baseUrl}${pathOf(request, false)} \\\n  -H "authorization: Bearer $POSTERN_API_KEY" \\\n  -H 'content-type: application/json' \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  if (request.api === "gemini") return geminiCode(language, baseUrl, request);
  if (language === "Python")
    return `import json\nimport os\n\nfrom ${client.toLowerCase()} import ${client}\n\nclient = ${client}(base_url="${url}", api_key=os.environ["POSTERN_API_KEY"])\nbody = json.loads(r'''\n${json}\n''')\nprint(client.${method}(**body))`;
  const module = isMessages ? "@anthropic-ai/sdk" : "openai";
  const environment = ["process", "env", "POSTERN_API_KEY"].join(".");
  return `import ${client} from "${module}";\n\nconst client = new ${client}({ baseURL: "${url}", apiKey: ${environment} });\nconst reply = await client.${method}(${json});\nconsole.log(reply);`;
}
