// The replies in the playground: reads text and images from the events of each API, and shows Markdown.

/** The fields of the APIs' events and replies that carry text, tool calls, images and errors. */
export interface ReplyEvent {
  readonly type?: string;
  readonly delta?: string | ReplyDelta;
  readonly choices?: readonly { readonly delta?: ReplyDelta }[];
  readonly item?: { readonly type?: string; readonly result?: string };
  /** In replies of the Images API. */
  readonly data?: readonly { readonly b64_json?: string; readonly url?: string }[];
  /** In replies of Google's API. */
  readonly candidates?: readonly { readonly content?: { readonly parts?: readonly ReplyPart[] } }[];
  readonly error?: { readonly message?: string };
}

interface ReplyPart {
  readonly text?: string;
  readonly thought?: boolean;
  readonly functionCall?: { readonly args?: unknown };
  readonly inlineData?: { readonly mimeType?: string; readonly data?: string };
}

export function partsOf({ candidates = [] }: ReplyEvent): readonly ReplyPart[] {
  return candidates[0]?.content?.parts ?? [];
}

interface ReplyDelta {
  readonly content?: string | null;
  readonly text?: string;
  readonly partial_json?: string;
  readonly tool_calls?: readonly { readonly function?: { readonly arguments?: string } }[];
  readonly images?: readonly { readonly image_url?: { readonly url?: string } }[];
}

/** The text that an event adds to the reply; a tool call is shown as JSON. */
export function textOf(event: ReplyEvent): string {
  const { type = "", delta, choices = [] } = event;
  if (typeof delta === "string")
    return /output_text\.delta$|function_call_arguments\.delta$/.test(type) ? delta : "";
  const added = delta ?? choices[0]?.delta ?? {};
  const calls = (added.tool_calls ?? []).map((call) => call.function?.arguments ?? "");
  const parts = partsOf(event).map(({ text, thought, functionCall }) =>
    functionCall === undefined ? (thought === true ? "" : text) : JSON.stringify(functionCall.args),
  );
  return [added.content, added.text, added.partial_json, ...calls, ...parts].join("");
}

/** The URLs of the images that an event adds. */
export function imagesOf(event: ReplyEvent): readonly string[] {
  const { type, choices = [], item, data = [] } = event;
  const inline = (base64: string): string => `data:image/png;base64,${base64}`;
  const generated = type === "response.output_item.done" ? item?.result : undefined;
  const isImage = item?.type === "image_generation_call" && generated !== undefined;
  return [
    ...(choices[0]?.delta?.images ?? []).map((image) => image.image_url?.url ?? ""),
    ...(isImage ? [inline(generated)] : []),
    ...partsOf(event).map(({ inlineData: image }) =>
      image?.data === undefined ? "" : `data:${image.mimeType ?? "image/png"};base64,${image.data}`,
    ),
    ...data.map((image) => (image.b64_json ? inline(image.b64_json) : (image.url ?? ""))),
  ].filter((url) => url !== "");
}

/** An image of another site is a link, because the page loads nothing from other sites. */
export function showImage(url: string): HTMLElement {
  if (!url.startsWith("data:image/")) {
    const link = document.createElement("a");
    link.textContent = "Image";
    if (url.startsWith("https://")) link.href = url;
    link.rel = "noreferrer";
    link.target = "_blank";
    return link;
  }
  const link = document.createElement("a");
  link.href = url;
  link.download = "image";
  const image = document.createElement("img");
  image.src = url;
  image.alt = "Generated image, download";
  link.append(image);
  return link;
}

/** Audio that can be played and saved. */
export function showAudio(audio: Blob): HTMLElement {
  const player = document.createElement("audio");
  player.controls = true;
  player.src = URL.createObjectURL(audio);
  return player;
}

interface MarkdownToken {
  readonly type: string;
  tag: string;
  readonly children: readonly MarkdownToken[] | null;
  readonly attrSet: (name: string, value: string) => void;
}

interface MarkdownIt {
  readonly options: unknown;
  readonly disable: (rule: string) => MarkdownIt;
  readonly parse: (text: string, env: object) => readonly MarkdownToken[];
  readonly renderer: {
    readonly render: (tokens: readonly MarkdownToken[], options: unknown, env: object) => string;
  };
}

type MarkdownWindow = Window & { readonly MarkdownIt: new (options: object) => MarkdownIt };

/** Sets the Markdown of a model as the content of an element. HTML in it is shown as text, and nothing is loaded. */
export function showMarkdown(element: Element, text: string): void {
  // Safe because the Markdown script of the page is loaded before this one.
  const { MarkdownIt } = window as unknown as MarkdownWindow;
  const markdown = new MarkdownIt({ html: false, breaks: true }).disable("image");
  const tokens = markdown.parse(text, {});
  for (const token of tokens) {
    // Below the heading of the reply.
    if (token.type.startsWith("heading_"))
      token.tag = `h${Math.min(6, Number(token.tag.slice(1)) + 2)}`;
    for (const child of token.children ?? []) {
      if (child.type !== "link_open") continue;
      child.attrSet("target", "_blank");
      child.attrSet("rel", "noreferrer");
    }
  }
  element.innerHTML = markdown.renderer.render(tokens, markdown.options, {});
}

/** Calls the function with each event of a stream, or with a reply that is not streamed. */
export async function readEvents(
  response: Response,
  onEvent: (data: string, event: ReplyEvent) => void,
): Promise<void> {
  if (response.headers.get("content-type")?.includes("json") === true) {
    const text = await response.text();
    onEvent(text, JSON.parse(text));
    return;
  }
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
