// @module-tag nightly
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { database, skipped } from '@onceward/testing'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browser } from '../../packages/onceward/src/fixtures/browser.ts'
import { type Served, served } from '../../packages/onceward/src/fixtures/served.ts'
import { pictureOf } from './pictures.ts'
import { troubledShop } from './troubled-shop.ts'

const DOCS = join(import.meta.dirname, '../../docs')

const overview = async (page: Page): Promise<void> => {
  await page.getByRole('article', { name: 'shipping' }).waitFor()
}

const letter = async (page: Page): Promise<void> => {
  await overview(page)
  await page.getByRole('link', { name: /card network/ }).click()
  await page
    .getByRole('link', { name: /^order-/ })
    .first()
    .click()
  await page.getByRole('heading', { name: 'What happened' }).waitFor()
}

/** What stays the same between two pictures of a page: its look and its words, without numbers and times. */
const shape = (svg: string): readonly string[] => [
  /<style>[\s\S]*<\/style>/.exec(svg)?.[0] ?? '',
  ...[...svg.matchAll(/<(h\d|th|dt|button|summary|strong)\b[^>]*>([^<\d]*)/g)].map(
    ([, tag, text = '']) => `${tag} ${text}`,
  ),
]

describe.skipIf(skipped('chromium'))('the pictures of the console', () => {
  let chrome: Browser
  let running: Served
  const shop = new AsyncDisposableStack()

  beforeAll(async () => {
    const { url } = await database()
    shop.use(await troubledShop(url))
    running = shop.use(await served(url, '--allow-changes', '--by', 'alice'))
    chrome = await browser()
  })
  afterAll(async () => {
    await chrome?.close()
    await shop.disposeAsync()
  })

  test.each([
    ['console.svg', overview],
    ['dead-letter.svg', letter],
  ])('docs/%s shows the page of today, dark for dark readers', async (name, open) => {
    const made = await pictureOf(chrome, { url: running.url, open })
    const file = join(DOCS, name)
    if (process.env['ONCEWARD_DOCS'] === 'write') await writeFile(file, made)
    const committed = await readFile(file, 'utf8')
    // If red: `ONCEWARD_DOCS=write npm run nightly -- pictures`.
    expect(shape(committed)).toEqual(shape(made))
    expect(committed).not.toContain(running.token)
    const { dark, light } = await shown(chrome, committed)
    expect(dark.equals(light)).toBe(false)
  })
})

/** How a document shows a picture. */
async function shown(
  chrome: Browser,
  svg: string,
): Promise<Readonly<Record<'light' | 'dark', Buffer>>> {
  const look = async (colorScheme: 'light' | 'dark'): Promise<Buffer> => {
    const page = await chrome.newPage({ colorScheme })
    const image = `<img src="data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}">`
    await page.setContent(`<meta name="color-scheme" content="light dark">${image}`)
    const width = 'document.images[0].decode().then(() => document.images[0].naturalWidth)'
    expect(await page.evaluate(width)).toBe(1_100)
    return page.screenshot()
  }
  return { light: await look('light'), dark: await look('dark') }
}
