// @module-tag nightly

import { postgres, skipped } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { browser, openPage } from '../fixtures/browser.ts'
import { operated } from '../fixtures/operated.ts'
import { served } from '../fixtures/served.ts'

describe.skipIf(skipped('chromium'))('a console whose database goes away', () => {
  test('says so, keeps the page, and goes on when the database is back', async () => {
    await using server = await postgres({ native: true })
    await using place = await operated(await server.createDatabase())
    await using console = await served(place.url)
    await using own = await browser()
    await place.send('first', {})
    await place.rest()
    const { page } = await openPage(own, console.url)
    const follow = (name: string): Promise<void> =>
      page.getByRole('navigation').getByRole('link', { name }).click()
    const tile = page.getByRole('article', { name: 'billing' })
    await tile.waitFor()
    await page.getByText('read-only').waitFor()
    await server.kill()
    await page
      .getByRole('alert')
      .getByText(/No connection to PostgreSQL.*Trying again/)
      .waitFor()
    await tile.getByText('Dependency down').waitFor()
    await follow('Waiting')
    await page
      .locator('main')
      .getByText(/No connection to PostgreSQL/)
      .waitFor()
    await server.restart()
    await page.getByText('Nothing waits for another attempt.').waitFor()
    await page.getByRole('alert').waitFor({ state: 'hidden' })
    await follow('Dead letters')
    expect(await page.getByRole('button', { name: /Replay|Discard/ }).count()).toBe(0)
  })
})
