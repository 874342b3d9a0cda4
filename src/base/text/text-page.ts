// A result of a command as an HTML page without other files, which can be kept, printed and sent.

import { formatDateTime } from "./format.ts";

export function textPage(title: string, text: string, at: number): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title>
<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c1c1c;background:#fff}pre{overflow-x:auto;font:13px/1.6 ui-monospace,monospace}</style>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(formatDateTime(at))} UTC</p>
<pre>${escapeHtml(text)}</pre>
</body>
</html>`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
