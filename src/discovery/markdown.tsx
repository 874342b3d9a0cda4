/** @jsxImportSource hono/jsx */
// Renders the Markdown subset that summaries and descriptions use: paragraphs, lists, tables, links, `code` and
// **bold**.

import type { Child } from "hono/jsx";

export function Markdown({ text }: { readonly text: string }): Child {
  return <>{text.split(/\n{2,}/).map(renderBlock)}</>;
}

function renderBlock(text: string): Child {
  const lines = text.split("\n");
  if (lines.every((line) => line.startsWith("|"))) return <MarkdownTable lines={lines} />;
  if (lines.every((line) => line.startsWith("- "))) {
    return (
      <ul>
        {lines.map((line) => (
          <li>{renderInline(line.slice(2))}</li>
        ))}
      </ul>
    );
  }
  return <p>{renderInline(text)}</p>;
}

export function renderInline(text: string): readonly Child[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\(https?:[^)\s]+\))/).map((part): Child => {
    if (part.startsWith("`") && part.length > 2) return <code>{part.slice(1, -1)}</code>;
    if (part.startsWith("**") && part.length > 4) return <strong>{part.slice(2, -2)}</strong>;
    const link = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part);
    return link === null ? part : <a href={link[2]}>{link[1]}</a>;
  });
}

function MarkdownTable({ lines }: { readonly lines: readonly string[] }): Child {
  const [head = [], , ...rows] = lines.map(tableCells);
  return (
    <div class="scroll" role="region" aria-label="Table" tabindex={0}>
      <table>
        <thead>
          <tr>
            {head.map((cell) => (
              <th scope="col">{renderInline(cell)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{renderInline(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function tableCells(line: string): readonly string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll(String.raw`\|`, "|"));
}
