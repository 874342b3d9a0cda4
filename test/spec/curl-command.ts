// Reads the curl commands of auth.md, as an agent runs them.

/** The first curl command of this method and path, as a request. */
export function curlCommand(
  guide: string,
  method: string,
  path: string,
): {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
} {
  const commands = [...guide.matchAll(/^curl (?:\\\n|.)*$/gm)].map(([text]) => text);
  const command = commands.find((text) => {
    const url = /https?:\/\/[^\s'"]+/.exec(text)?.[0] ?? "";
    return new URL(url).pathname === path && (/ -X (\w+)/.exec(text)?.[1] ?? "GET") === method;
  });
  if (command === undefined) throw new Error(`auth.md has no command for ${method} ${path}`);
  const url = /https?:\/\/[^\s'"]+/.exec(command)?.[0] ?? "";
  const json = / -d '?(.+?)'?$/m.exec(command)?.[1];
  if (json !== undefined)
    return { url, headers: { "content-type": "application/json" }, body: json };
  const fields = [...command.matchAll(/--data-urlencode '?(\w+)=([^'\n]+)'?/g)];
  if (fields.length === 0) return { url, headers: {} };
  const form = new URLSearchParams(fields.map(([, name = "", value = ""]) => [name, value]));
  return {
    url,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: form.toString(),
  };
}
