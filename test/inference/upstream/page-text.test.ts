// The text of a web page, as a model reads it.

import { expect, test } from "bun:test";
import { htmlToPage } from "../../../src/inference/web-search/page-text.ts";
import { cutBytes } from "../../../src/inference/web-search/search-backends.ts";

test("keeps text, links and the title, and drops scripts and styles", () => {
  const html = `<!doctype html><title> A &amp; B </title><style>p { color: red }</style>
    <nav><a href="/here">Here</a></nav><script>alert("no")</script><noscript>no</noscript>
    <h1>Head</h1><p>One&nbsp;two &lt;b&gt; &#8364;5 &#x41; &unknown; &#9999999;</p>
    <table><tr><td>a</td><td>b</td></tr></table><a href="https://a.example/">Out</a>`;
  expect(htmlToPage(html)).toEqual({
    title: "A & B",
    text: "Here\nHead\nOne two <b> €5 A &unknown; &#9999999;\na b\nOut (https://a.example/)",
  });
});

test.each([
  ["nothing", ""],
  ["a tag that does not end", "<p"],
  ["tags that are not closed", "<div><b><i>x"],
])("reads %s", (_, html) => {
  expect(typeof htmlToPage(html).text).toBe("string");
});

test("reads elements that an SVG or a formula ends at once", () => {
  const formula = `<math><a href="http://x.example/"/></math>`;
  const html = `<svg><title/></svg><p>a<svg class="icon"/>b</p><p>${formula}c</p>`;
  expect(htmlToPage(html)).toEqual({ text: "ab\nc" });
});

test("has the title of the page, and not that of an inline SVG", () => {
  const svg = "<svg><title>Icon</title><path/></svg>";
  const html = `<html><head><title>Page</title></head><body>${svg}<p>Text${svg}</p></body></html>`;
  expect(htmlToPage(html)).toEqual({ title: "Page", text: "Text" });
  expect(htmlToPage(`${svg}<p>Text</p>`)).toEqual({ text: "Text" });
});

test("has no half of a character, which providers refuse", () => {
  const { title, text } = htmlToPage(`<title>${"a".repeat(299)}🙂</title><p>🙂 &#xD83D; b`);
  expect(title).toBe(`${"a".repeat(299)}\ufffd`);
  expect(cutBytes(text, 100)).toBe("🙂 \ufffd b");
});

test("reads the beginning of a page with very many nodes", () => {
  const { text } = htmlToPage("<p>word</p>".repeat(300_000));
  expect(text.startsWith("word\nword\n")).toBe(true);
  expect(text.length).toBeLessThan(500_000);
});
