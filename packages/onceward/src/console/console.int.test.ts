// @module-tag nightly

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { eventIdOf } from '@onceward/core/ports'
import { skipped } from '@onceward/testing'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { browser, openPage, type Watched } from '../fixtures/browser.ts'
import { type Operated, operated } from '../fixtures/operated.ts'
import { type Served, served } from '../fixtures/served.ts'

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** The server of the tests has no fsync, which is an error of the doctor. */
const FINE = /Nothing is wrong|\d+ things? needs? you/

let chrome: Browser
let at: Operated
let running: Served
const opened: Watched[] = []

const audit = async (): Promise<readonly unknown[]> =>
  (await at.pool.query('select who, action, why from onceward.audit order by id')).rows

async function open(url = running.url): Promise<Page> {
  const watched = await openPage(chrome, url)
  opened.push(watched)
  return watched.page
}

const DEAD_MESSAGE = `insert into onceward.outbox_messages (bucket, state, message_id, destination, key, envelope, payload, failed_at, error)
  select 0, 'x', repeat('an-id-that-is-longer', 6), 'mails-of-the-shop', convert_to(repeat('key', 99), 'utf8'),
    '{"source":"billing","type":"t","headers":{}}', '{}', now(), repeat('too large ', 20)`

const follow = async (page: Page, name: string): Promise<void> => {
  await page.getByRole('navigation').getByRole('link', { name }).click()
}

describe.skipIf(skipped('chromium'))('the console in a Chromium', () => {
  beforeAll(async () => {
    chrome = await browser()
  })
  afterAll(() => chrome?.close())
  beforeEach(async () => {
    at = await operated()
    running = await served(at.url, '--allow-changes', '--by', 'alice')
  })
  afterEach(async () => {
    const watched = opened.splice(0)
    for (const { page } of watched) await page.context().close()
    await running[Symbol.asyncDispose]()
    await at[Symbol.asyncDispose]()
    expect(watched.flatMap(({ foreign, problems }) => [...foreign, ...problems])).toEqual([])
  })

  test('says whether anything is wrong, with a tile and a plot of each consumer, and changes by itself', async () => {
    await at.send('first', {})
    const page = await open()
    const tile = page.getByRole('article', { name: 'billing' })
    await tile.getByRole('img', { name: /last hour: 1,.* Failed: 0\.$/ }).waitFor()
    await page.getByRole('heading', { name: FINE }).waitFor()
    expect(await tile.getByText('Healthy').count()).toBe(1)
    for (const key of ['a', 'b']) await at.send(key, {})
    for (const n of [1, 2]) await at.kill(`order-${n}`, `no account acc-${n}`)
    await tile.getByRole('img', { name: /in the last hour: 3,.* Failed: 2\.$/ }).waitFor()
    await page.getByRole('heading', { name: '1 of 1 consumers needs you' }).waitFor()
    await tile.getByText('Dead letters', { exact: true }).waitFor()
    const bars = tile.locator('.plot .failed')
    expect((await bars.getAttribute('d'))?.split('M')).toHaveLength(2)
    expect(page.url()).not.toContain(running.token)
    // One group of errors that differ in a number.
    await page.getByRole('link', { name: 'RangeError: no account acc-…' }).click()
    await page.getByText('billing fatal: 2').waitFor()
    await page.getByRole('link', { name: 'All errors' }).waitFor()
  })

  test('counts in the navigation, and lists apart who is gone', async () => {
    await at.send('first', {})
    await at.kill('order-1', 'card declined')
    await at.pool.query(`insert into onceward.consumers (name, dedup_window_ms, fingerprint_rule, seen_at, worker_ended_at)
      select other, dedup_window_ms, fingerprint_rule, now() - interval '3 d', now() - interval '3 d'
      from onceward.consumers, (values ('gone'), ('left')) as others (other)`)
    for (const n of [2, 3]) await at.kill(`order-${n}`, `HTTP 503 after ${n}0 ms`)
    await at.kill('order-4', 'HTTP 404 after 9 ms')
    const page = await open()
    await page.getByRole('heading', { name: '1 of 1 consumers needs you' }).waitFor()
    // The number of a status tells errors apart, and other numbers do not.
    await page.getByRole('link', { name: 'RangeError: HTTP 503 after … ms' }).waitFor()
    await page.getByRole('link', { name: 'RangeError: HTTP 404 after 9 ms' }).waitFor()
    await page.getByText('2 consumers without a worker for a day').click()
    await page.getByText(/^gone: last worker/).waitFor()
    await page.getByRole('button', { name: 'Remove gone', exact: true }).click()
    await page.getByRole('button', { name: 'Remove 1', exact: true }).click()
    await page.getByRole('status').getByText('1 consumer removed.').waitFor()
    await page.getByText('1 consumer without a worker for a day').waitFor()
    expect(await page.getByText(/^gone: last worker/).count()).toBe(0)
    expect(await audit()).toEqual([{ who: 'alice', action: 'remove', why: null }])
    const nav = page.getByRole('navigation')
    await nav.getByRole('link', { name: 'Dead letters 4', exact: true }).waitFor()
    await nav.getByRole('link', { name: 'Waiting', exact: true }).waitFor()
    await page.setViewportSize({ width: 1_360, height: 900 })
    const bottoms = await page.evaluate(
      "[...document.querySelectorAll('body > header > *')].map((each) => each.getBoundingClientRect().bottom)",
    )
    expect(Math.max(...(bottoms as number[]))).toBeLessThan(64)
  })

  test('shows many consumers as rows, and messages that no relay takes', async () => {
    await at.send('first', {})
    await at.pool.query(`insert into onceward.consumers (name, dedup_window_ms, fingerprint_rule)
      select 'other-' || n, dedup_window_ms, fingerprint_rule from onceward.consumers, generate_series(1, 11) n`)
    await at.pool.query(
      DEAD_MESSAGE.replace("'x', repeat", "'q', repeat").replace('now(), repeat', 'null, repeat'),
    )
    const page = await open()
    await page.getByRole('heading', { name: FINE }).waitFor()
    await page
      .getByRole('link', { name: /^1 message of the outbox to mails-of-the-shop waits/ })
      .waitFor()
    await page
      .getByRole('table', { name: 'Consumers' })
      .getByRole('row', { name: /other-11 Healthy/ })
      .waitFor()
    expect(await page.getByRole('article').count()).toBe(0)
  })

  test('replays all dead letters of one error, and no other', async () => {
    for (const n of [1, 2]) await at.kill(`order-${n}`, `no account acc-${n}`)
    await at.kill('order-3', 'card declined')
    await at.rest()
    const page = await open()
    await follow(page, 'Dead letters')
    await page.getByRole('button', { name: 'Replay 2: RangeError: no account acc-…' }).click()
    await page.getByRole('dialog').getByText('billing fatal: 2').waitFor()
    await page.getByRole('button', { name: 'Replay 2', exact: true }).click()
    await page.getByRole('status').getByText('2 dead letters will run again.').waitFor()
    for (const n of [1, 2]) {
      await page.getByRole('link', { name: `order-${n}` }).waitFor({ state: 'detached' })
    }
    await page.getByRole('link', { name: 'order-3' }).waitFor()
    expect(await page.getByRole('link', { name: /order-/ }).count()).toBe(1)
    expect(await audit()).toHaveLength(2)
  })

  test('shows the states that need somebody, worst first', async () => {
    await at.send('first', {})
    await at.kill('order-1', 'no')
    await at.pool.query(`insert into onceward.consumers (name, dedup_window_ms, fingerprint_rule, seen_at, worker_ended_at, has_place)
      select other, dedup_window_ms, fingerprint_rule, now() - age::interval, now() - age::interval, true
      from onceward.consumers, (values ('gone', '3 h'), ('stuck', '0 h')) as others (other, age)`)
    await at.pool.query(`update onceward.failed_events set consumer_id = (select id from onceward.consumers where name = 'stuck'),
      last_failed_at = now() - interval '20 min'`)
    const page = await open()
    await page.getByRole('heading', { name: '2 of 3 consumers need you' }).waitFor()
    expect(await page.locator('article .badge').allTextContents()).toEqual([
      ...['Dependency down', 'No worker', 'Healthy'],
    ])
    await page
      .getByText(/^Its dead-letter queue or topic has not taken 1 dead letter since/)
      .waitFor()
    await page.getByText(/^No worker since .*, for 3 h\.$/).waitFor()
  })

  test('replays a dead letter by keyboard alone, with counts and in the name of the operator', async () => {
    await at.kill('order-1', 'card declined')
    await at.rest()
    const page = await open()
    await page.getByRole('heading', { name: 'needs you' }).waitFor()
    await follow(page, 'Dead letters')
    await page.getByRole('link', { name: 'order-1' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('#error', { hasText: 'RangeError: card declined' }).waitFor()
    expect(await page.locator('#error').textContent()).toMatch(/\n {4}at /)
    expect(await page.locator('#body').textContent()).toContain('"fail": "card declined"')
    await page.getByRole('button', { name: 'Replay' }).focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('billing fatal: 1').waitFor()
    await page.keyboard.press('Escape')
    expect(await audit()).toEqual([])
    // The focus is back where it was.
    await page.locator('button:focus', { hasText: 'Replay' }).waitFor()
    await page.keyboard.press('Enter')
    await dialog.getByText('billing fatal: 1').waitFor()
    await dialog.getByLabel(/Your name/).press('Enter')
    await page.getByRole('status').getByText('1 dead letter will run again.').waitFor()
    expect(await audit()).toEqual([{ who: 'alice', action: 'replay', why: null }])
    await follow(page, 'Waiting')
    await page.getByRole('region', { name: 'Parked in PostgreSQL' }).getByText('order-1').waitFor()
  })

  test('searches, and discards what was found or selected, with a reason', async () => {
    for (const n of [1, 2, 3]) await at.kill(`order-${n}`, `card ${n} declined`)
    const page = await open(`${running.url}`)
    await follow(page, 'Dead letters')
    await page.getByLabel('Key or error contains').fill('CARD 2')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('button', { name: 'Discard all 1 that match' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Why').fill('refunded')
    await dialog.getByLabel(/Your name/).fill('bob')
    await dialog.getByRole('button', { name: 'Discard 1' }).click()
    await page.getByRole('status').getByText('1 dead letter discarded.').waitFor()
    await follow(page, 'Overview')
    await follow(page, 'Dead letters')
    await page.getByLabel('Select order-3').check()
    await page.getByRole('button', { name: 'Discard selected' }).click()
    await dialog.getByLabel('Why').fill('test')
    await dialog.getByRole('button', { name: 'Discard 1' }).click()
    await page.getByRole('status').getByText('1 dead letter discarded.').waitFor()
    expect(await audit()).toEqual([
      { who: 'bob', action: 'discard', why: 'refunded' },
      { who: 'bob', action: 'discard', why: 'test' },
    ])
    await page.getByRole('link', { name: 'order-1' }).waitFor()
  })

  test('two operators replay the same letter: it is replayed once, and the second one is told', async () => {
    await at.kill('order-1', 'no')
    await at.rest()
    const id = eventIdOf('billing', 'acme', 'order-1')
    const pages = [await open(), await open()]
    for (const page of pages) {
      await page.getByRole('heading', { name: 'needs you' }).waitFor()
      await page.goto(`${running.origin}/#/letter?id=${id}`)
      await page.getByRole('button', { name: 'Replay' }).click()
    }
    for (const page of pages) await page.getByRole('button', { name: 'Replay 1' }).click()
    const told = await Promise.all(
      pages.map(async (page) => {
        await page
          .getByRole('status')
          .getByText(/dead letters? will run again\./)
          .waitFor()
        return page.getByRole('status').textContent()
      }),
    )
    expect(told.toSorted()).toEqual([
      `0 dead letters will run again. ${id} was left as it is: it waits or runs already.`,
      '1 dead letter will run again.',
    ])
    expect(await audit()).toHaveLength(1)
  })

  test('hostile keys, errors and bodies are shown as text', async () => {
    const evil = '<img src=x onerror=alert(1)><script>alert(2)</script>\u202e'
    await at.kill(evil, evil)
    await at.sendBytes('bytes', Uint8Array.of(0, 255, 27))
    await at.sendBytes('big', Buffer.alloc(10_485_760, '<script>alert(3)</script>'))
    const page = await open()
    await follow(page, 'Dead letters')
    await page.getByRole('link', { name: /^<img src=x onerror/ }).click()
    await page.locator('#error', { hasText: '<script>alert(2)</script>\\u{202e}' }).waitFor()
    const bodies = [
      [/00 ff 1b/, /3 bytes, shown as hex/],
      [/<script>alert\(3\)/, /10,485,760 bytes, shown as text/],
    ] as const
    for (const [at, [body, size]] of bodies.entries()) {
      await follow(page, 'Dead letters')
      await page.getByRole('link', { name: '(no key)' }).nth(at).click()
      await page.locator('#body', { hasText: body }).waitFor()
      await page.getByText(size).waitFor()
    }
    await page.getByText('The first 64 KiB of 10 MiB').waitFor()
    expect(await page.locator('main script, main img').count()).toBe(0)
  })

  test('tells the story of an event, and what its next delivery would be told', async () => {
    await at.kill('order-1', 'no')
    const page = await open()
    await follow(page, 'Event')
    await page.getByLabel('Key').fill('order-1')
    await page.getByLabel('Consumer').selectOption('billing')
    await page.getByLabel('Tenant').fill('acme')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await page.getByText('settled as dead-lettered (fatal)').waitFor()
    await page.getByText('RangeError: no').waitFor()
    await follow(page, 'Findings')
    await page.getByText(/1 dead letter of billing wait/).waitFor()
    await page.getByRole('link', { name: 'Show the dead letters' }).click()
    await page.getByRole('link', { name: 'order-1' }).waitFor()
    expect(await page.getByLabel('Consumer').inputValue()).toBe('billing')
  })

  test('shows what waits in the outbox and why, and replays or discards its dead messages', async () => {
    // The last characters of an id are its state and its key.
    await at.pool.query(`insert into onceward.outbox_messages
        (bucket, state, message_id, destination, key, envelope, payload, attempt, error, failed_at, due_at, created_at)
      select 0, left(kind, 1)::"char", to_ || '-' || kind, to_, substr(kind, 2)::bytea, '{"source":"billing","type":"t","headers":{"lang":"<b>"}}',
        '{"cents":1}', 3, 'Error: queue ' || kind || e'\n    at x', now(), now() + interval '1 h', now() - interval '20 min'
      from (values ('mails', 'q1'), ('mails', 'w2'), ('mails', 'h2'), ('mails', 'x3'), ('mails', 'x4'), ('pay', 'x5')) m (to_, kind)`)
    await at.pool.query(
      "insert into onceward.outbox_leases (destination, bucket, relay, until) values ('pay', -1, gen_random_uuid(), now() + interval '1 h')",
    )
    const page = await open()
    await follow(page, 'Findings')
    await page.getByText(/mails wait, and no relay that runs has this destination/).waitFor()
    await page.getByRole('link', { name: 'Show the outbox' }).first().click()
    const rowsOf = (name: string) => page.getByRole('region', { name }).getByRole('row')
    await page.getByRole('heading', { name: 'Dead messages' }).waitFor()
    const lines = await rowsOf('By destination').allInnerTexts()
    expect(lines.slice(1).map((line) => line.split(/\s+/).join(' '))).toEqual([
      ...['mails 2 0 1 2 20 min ago none', 'pay 0 0 0 1 – runs'],
    ])
    const [, held = '', ...others] = await rowsOf('Keys whose first message').allInnerTexts()
    expect(held.split(/\s+/).join(' ')).toMatch(/^mails 2 2 3 20 min ago in .* Error: queue w2$/)
    expect(others).toEqual([])

    await page.getByRole('link', { name: 'mails-x3' }).click()
    await page.locator('#body', { hasText: '"cents": 1' }).waitFor()
    await page.locator('#error', { hasText: 'Error: queue x3' }).waitFor()
    await page.getByRole('button', { name: 'Replay' }).click()
    await page.getByRole('dialog').getByText('to mails: 1').waitFor()
    await page.getByRole('button', { name: 'Replay 1' }).click()
    await page.getByRole('status').getByText('1 dead message will be published again.').waitFor()
    // The page still shows it as dead.
    await page.getByRole('button', { name: 'Replay' }).click()
    await page.getByRole('button', { name: 'Replay 1' }).click()
    await page.getByText(/^0 dead messages .* left as it is: it is not dead any more/).waitFor()

    await follow(page, 'Outbox')
    await page.getByRole('combobox', { name: 'Destination' }).selectOption('mails')
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByRole('button', { name: 'Discard all 1 that match' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Why').fill('no such account')
    await dialog.getByRole('button', { name: 'Discard 1' }).click()
    await page.getByRole('status').getByText('1 dead message discarded.').waitFor()
    await follow(page, 'Overview')
    await follow(page, 'Outbox')
    await page.getByLabel('Select pay-x5').check()
    await page.getByRole('button', { name: 'Replay selected' }).click()
    await page.getByRole('button', { name: 'Replay 1' }).click()
    await page.getByText('No message is dead.').waitFor()
    expect(await audit()).toEqual([
      { who: 'alice', action: 'replay', why: null },
      { who: 'alice', action: 'discard', why: 'no such account' },
      { who: 'alice', action: 'replay', why: null },
    ])
    const left = await at.pool.query(
      "select message_id || ' ' || state::text as left from onceward.outbox_messages where attempt = 0 or state = 'x'",
    )
    expect(left.rows.map((row) => row.left).toSorted()).toEqual(['mails-x3 q', 'pay-x5 q'])
  })

  test('a wrong token opens nothing, and the right one can be typed', async () => {
    await at.send('first', {})
    const page = await open(`${running.origin}/#token=wrong`)
    await page.getByText('The token is missing or wrong.').waitFor()
    expect(await page.getByText('billing').count()).toBe(0)
    await page.getByLabel('Token').fill(running.token)
    await page.getByRole('button', { name: 'Open' }).click()
    await page.getByRole('article', { name: 'billing' }).waitFor()
  })

  test('on a narrow screen pages and questions fit, and keys can be read', async () => {
    await at.kill('a-key-that-is-longer-than-the-screen-is-wide-'.repeat(3), 'no')
    await at.pool.query(DEAD_MESSAGE)
    const page = await open()
    await page.setViewportSize({ width: 360, height: 740 })
    const titles = { Overview: 'needs you', Waiting: 'Waiting', Event: 'event', Tables: 'Tables' }
    const others = { Findings: 'Findings', Outbox: 'Outbox', 'Dead letters': 'Dead letters' }
    for (const [name, title] of Object.entries({ ...titles, ...others })) {
      await follow(page, name)
      await page.locator('main h2', { hasText: title }).waitFor()
      // No column is cut, and none is reached by scrolling sideways alone.
      const cut =
        "[...document.querySelectorAll('.scroll')].some((each) => each.scrollWidth > each.clientWidth)"
      expect(await page.evaluate(cut), name).toBe(false)
      expect(await page.evaluate('document.documentElement.scrollWidth'), name).toBe(360)
    }
    const link = page.getByRole('link', { name: /a-key-that/ })
    expect((await link.boundingBox())?.width).toBeGreaterThan(120)
    // Key, error, and the rest in a line or two: a row of labels would take a third of the screen.
    const row = page.getByRole('table', { name: /Dead letters/ }).locator('tbody tr')
    expect((await row.boundingBox())?.height).toBeLessThan(130)
    await page.getByRole('button', { name: 'Discard all 1 that match' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Why').waitFor()
    const boxes = await Promise.all(
      [dialog, dialog.getByLabel('Why')].map((each) => each.boundingBox()),
    )
    for (const box of boxes) expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(360)
  })

  test('axe finds nothing serious on any page, in dark and light', async () => {
    await at.send('a', {})
    await at.kill('order-1', 'no')
    const { rows } = await at.pool.query(`${DEAD_MESSAGE} returning position`)
    const page = await open()
    const id = eventIdOf('billing', 'acme', 'order-1')
    const found: unknown[] = []
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const path of [
        '',
        'waiting',
        'letters',
        `letter?id=${id}`,
        `event?id=${id}`,
        'outbox',
        `message?position=${rows[0].position}`,
        'findings',
        'tables',
      ]) {
        await page.goto(`${running.origin}/#/${path}`)
        await page.locator('main h2').waitFor()
        found.push(...(await seriousOf(page)).map((each) => `${colorScheme} ${path}: ${each}`))
      }
      await page.goto(`${running.origin}/#/letter?id=${id}`)
      await page.getByRole('button', { name: 'Discard' }).click()
      found.push(...(await seriousOf(page)))
      await page.keyboard.press('Escape')
    }
    expect(found).toEqual([])
  })
})

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly html: string }[]
}

async function seriousOf(page: Page): Promise<readonly string[]> {
  // By the debugger, because the page's own rules forbid foreign scripts.
  const isThere = await page.evaluate('typeof axe === "object"')
  if (!isThere) await page.evaluate(readFileSync(AXE, 'utf8'))
  const { violations } = (await page.evaluate('axe.run()')) as {
    readonly violations: readonly Violation[]
  }
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' ')}`)
}
