import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'

const STYLE = join(import.meta.dirname, '../../packages/onceward/src/console/page/style.css')
const WIDTH = 1_100

/** The elements of the page as XHTML, as they stand in the browser. Addresses and paths are usual ones. */
const SNAPSHOT = `(() => {
  const place = document.getElementById('place').firstChild
  place.textContent = place.textContent.replace(/^[^,]+, database [^,]+, user [^,]+/, 'db:5432, database shop, user alice')
  for (const each of document.querySelectorAll('.frame, pre'))
    each.textContent = each.textContent.replaceAll(/\\/\\S*\\/troubled-shop\\.ts/g, '/app/src/billing.ts')
  for (const each of document.querySelectorAll('details > :not(summary)')) each.remove()
  for (const each of document.querySelectorAll('.scroll, pre, [tabindex]')) each.removeAttribute('tabindex')
  const serializer = new XMLSerializer()
  const parts = [...document.querySelectorAll('body > header, main')]
  return {
    height: Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + 20),
    content: parts.map((each) => serializer.serializeToString(each)).join(''),
  }
})()`

/**
 * A page of the console as text: an SVG that holds the page's elements and its style sheet, so that it is dark where its
 * reader is. It loads nothing.
 *
 * @param open - Opens the page that is wanted, from the first one.
 */
export async function pictureOf(
  browser: Browser,
  { open, url }: { readonly url: string; readonly open: (page: Page) => Promise<void> },
): Promise<string> {
  const context = await browser.newContext({ viewport: { width: WIDTH, height: 800 } })
  try {
    const page = await context.newPage()
    // The server of the tests has no fsync, which no reader has.
    await page.route('**/api/findings', (route) => route.fulfill({ json: { findings: [] } }))
    await page.goto(url)
    await open(page)
    const { content, height } = (await page.evaluate(SNAPSHOT)) as Snapshot
    const style = await readFile(STYLE, 'utf8')
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}">
<style>
${style.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</style>
<foreignObject width="100%" height="100%">
<body xmlns="http://www.w3.org/1999/xhtml">
${content}
</body>
</foreignObject>
</svg>
`
  } finally {
    await context.close()
  }
}

interface Snapshot {
  readonly height: number
  readonly content: string
}
