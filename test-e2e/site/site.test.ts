// @module-tag nightly
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { skipped } from '@onceward/testing'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browser, openPage } from '../../packages/onceward/src/fixtures/browser.ts'
import { BUGS, FIRST_SEED } from '../../site/playground/menu.ts'

const root = join(import.meta.dirname, '../..')
const dist = join(root, 'site/dist')
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}

/** The pages as any server of files has them. */
async function serve(): Promise<AsyncDisposable & { readonly url: string }> {
  const answer = async (url: string, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(url, 'http://localhost')
    const file = join(dist, pathname.endsWith('/') ? `${pathname}index.html` : pathname)
    try {
      const body = await readFile(file)
      response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'text/plain' }).end(body)
    } catch {
      response.writeHead(404).end()
    }
  }
  const server = createServer(({ url = '/' }, response) => void answer(url, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: close }
}

async function playToEnd(page: Page): Promise<readonly string[]> {
  await page.getByRole('button', { name: 'To the end' }).click()
  await page.getByRole('button', { name: 'Run', disabled: true }).waitFor()
  return page.getByRole('status').allTextContents()
}

describe.skipIf(skipped('chromium'))('the site', () => {
  const resources = new AsyncDisposableStack()
  let chrome: Browser
  let url = ''

  beforeAll(async () => {
    // Fails on a dead link.
    execFileSync(process.execPath, ['scripts/main.mjs', 'site'], { cwd: root, stdio: 'ignore' })
    const server = resources.use(await serve())
    url = server.url
    chrome = await browser()
  }, 1_200_000)
  afterAll(async () => {
    await chrome?.close()
    await resources.disposeAsync()
  })

  test('the playground doubles without the guard, and not with it', async () => {
    const { foreign, page, problems } = await openPage(chrome, `${url}/`)
    const [without, guarded] = await playToEnd(page)
    expect(without).toMatch(/^\d charged twice or more/)
    expect(guarded).toBe('all 6 orders charged once')
    expect(new URL(page.url()).searchParams.get('seed')).toBe(String(FIRST_SEED))
    expect({ foreign, problems }).toEqual({ foreign: [], problems: [] })
    await page.context().close()
  })

  test.each(BUGS)('the playground shows $title', async ({ name, says, seed, title }) => {
    const { page, problems } = await openPage(chrome, `${url}/`)
    await page.getByLabel('A historical bug').selectOption(title)
    await page.getByText(says).waitFor()
    await expect.poll(() => page.url()).toContain(`bug=${name}`)
    await page.getByRole('article', { name: 'With onceward, and the bug' }).waitFor()
    expect(new URL(page.url()).searchParams.get('seed')).toBe(String(seed))
    const [, guarded] = await playToEnd(page)
    expect(guarded).toContain(says.includes('double') ? 'charged twice' : 'never charged')
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('the visitor steps, kills and freezes with the keyboard', async () => {
    const { page } = await openPage(chrome, `${url}/?seed=3&strikes=none`)
    for (let steps = 0; steps < 12; steps += 1) {
      await page.getByRole('button', { name: 'Step' }).press('Enter')
    }
    await page.getByRole('button', { name: 'Kill worker 1' }).press('Enter')
    await page.getByRole('button', { name: 'Freeze worker 2' }).press('Space')
    await expect.poll(() => page.locator('.worker.killed').count()).toBe(2)
    await expect.poll(() => page.locator('.worker.frozen').count()).toBe(2)
    expect((await playToEnd(page))[1]).toBe('all 6 orders charged once')
    await page.context().close()
  })

  test.each([390, 1_360])('fits into %i px, and axe finds nothing serious', async (width) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await chrome.newPage({ viewport: { width, height: 900 }, colorScheme })
      await page.goto(`${url}/`)
      await playToEnd(page)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      await page.addScriptTag({ path: AXE })
      const { violations } = (await page.evaluate("axe.run('.playground')")) as {
        readonly violations: readonly { readonly id: string; readonly impact: string }[]
      }
      const serious = violations.filter(({ impact }) => /serious|critical/.test(impact))
      expect(serious.map(({ id }) => id)).toEqual([])
      await page.close()
    }
  })

  test('models read it: llms.txt, and each page as Markdown', async () => {
    const index = await readFile(join(dist, 'llms.txt'), 'utf8')
    expect(index).toContain('(/sqs.md)')
    expect(await readFile(join(dist, 'sqs.md'), 'utf8')).toContain('consumeSqs')
    expect(await readFile(join(dist, 'reference/@onceward/core.html'), 'utf8')).toContain(
      'createGuard',
    )
  })
})
