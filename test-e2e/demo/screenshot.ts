import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { browser } from '../../packages/onceward/src/fixtures/browser.ts'

const STYLE = join(import.meta.dirname, '../../packages/onceward/src/console/page/style.css')
/** What a README shows without scrolling. */
const SIZE = { width: 1_100, height: 520 }

/** The elements of the page as XHTML, as they stand in the browser. The address of the database is a usual one. */
const SNAPSHOT = `
  document.getElementById('place').textContent = document.getElementById('place').textContent
    .replace(/^[^,]+, database [^,]+/, 'db:5432, database shop')
  const serializer = new XMLSerializer()
  ;[...document.querySelectorAll('header, main')].map((each) => serializer.serializeToString(each)).join('')`

/**
 * A picture of the console as text: an SVG that holds the page's elements and its style sheet, so that it is dark where
 * its reader is. It loads nothing.
 */
export async function screenshot(consoleUrl: string, file: string): Promise<void> {
  await using chrome = await browser()
  const page = await chrome.newPage({ viewport: SIZE })
  await page.goto(consoleUrl)
  await page
    .getByRole('row', { name: /billing/ })
    .first()
    .waitFor()
  await writeFile(file, toSvg(await readFile(STYLE, 'utf8'), String(await page.evaluate(SNAPSHOT))))
}

function toSvg(style: string, content: string): string {
  const { height, width } = SIZE
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<style>
${style.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</style>
<foreignObject width="100%" height="100%">
<body xmlns="http://www.w3.org/1999/xhtml" style="height: 100%; overflow: hidden">
${content}
</body>
</foreignObject>
</svg>
`
}
