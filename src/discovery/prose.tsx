/** @jsxImportSource hono/jsx */
// The little Markdown that summaries and descriptions are written in: paragraphs, lists, tables,
// links, `code` and **weight**.

import type { Child } from "hono/jsx";

export function Prose({ text }: { readonly text: string }): Child {
  return <>{text.split(/\n{2,}/).map(block)}</>;
}

function block(text: string): Child {
  const lines = text.split("\n");
  if (lines.every((line) => line.startsWith("|"))) return <MarkdownTable lines={lines} />;
  if (lines.every((line) => line.startsWith("- "))) {
    return (
      <ul>
        {lines.map((line) => (
          <li>{inline(line.slice(2))}</li>
        ))}
      </ul>
    );
  }
  return <p>{inline(text)}</p>;
}

export function inline(text: string): readonly Child[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\(https?:[^)\s]+\))/).map((part): Child => {
    if (part.startsWith("`") && part.length > 2) return <code>{part.slice(1, -1)}</code>;
    if (part.startsWith("**") && part.length > 4) return <strong>{part.slice(2, -2)}</strong>;
    const link = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part);
    return link === null ? part : <a href={link[2]}>{link[1]}</a>;
  });
}

function MarkdownTable({ lines }: { readonly lines: readonly string[] }): Child {
  const [head = [], , ...rows] = lines.map(cellsOf);
  return (
    <div class="scroll" role="region" aria-label="Table" tabindex={0}>
      <table>
        <thead>
          <tr>
            {head.map((cell) => (
              <th scope="col">{inline(cell)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{inline(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cellsOf(line: string): readonly string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll(String.raw`\|`, "|"));
}
