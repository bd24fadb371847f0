// @module-tag nightly

import { CreateQueueCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { createGuard, FatalError } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { fromSqsMessage } from '@onceward/sqs'
import { skipped, sqs } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { browser, openPage } from '../fixtures/browser.ts'
import { cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'
import { type Served, served } from '../fixtures/served.ts'

const CREDENTIALS = {
  ...{ AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 's3cr3t-key' },
}

describe.skipIf(skipped('sqs') ?? skipped('chromium'))('a console that knows the broker', () => {
  let server: Awaited<ReturnType<typeof sqs>>
  let client: SQSClient
  let chrome: Awaited<ReturnType<typeof browser>>
  let queueUrl: string
  let at: Operated
  let running: Served
  let page: Page
  let queues = 0

  beforeAll(async () => {
    server = await sqs({ engine: 'fauxqs', process: true, native: true })
    client = new SQSClient(server.connection)
    chrome = await browser()
  }, 120_000)
  afterAll(async () => {
    await chrome?.close()
    client?.destroy()
    await server?.stop()
  })
  beforeEach(async () => {
    queues += 1
    const created = await client.send(new CreateQueueCommand({ QueueName: `orders-${queues}` }))
    queueUrl = created.QueueUrl ?? ''
    at = await operated()
  })
  afterEach(async () => {
    await page?.context().close()
    await running?.[Symbol.asyncDispose]()
    await at[Symbol.asyncDispose]()
  })

  /** A buried event and a refused message, as the consumer leaves them. */
  async function die(): Promise<void> {
    const guard = createGuard(
      {
        ...{ consumer: 'orders', inbox: pgInbox(at.pool), logger: silent },
        eventKey: ({ payload }) => (payload as { readonly id: string }).id,
      },
      () => {
        throw new FatalError('no account')
      },
    )
    for (const [n, Body] of ['{"id":"order-1"}', '{'].entries()) {
      const Attributes = { ApproximateReceiveCount: '1', SentTimestamp: '1763805600000' }
      await guard.process(fromSqsMessage({ MessageId: `m-${n}`, Body, Attributes }, queueUrl))
    }
    await guard.close()
  }

  async function open(...addresses: readonly string[]): Promise<void> {
    const brokers = addresses.flatMap((address) => ['--broker', address])
    const env = { ...CREDENTIALS, AWS_ENDPOINT_URL: server.connection.endpoint }
    running = await served({ url: at.url, env }, '--allow-changes', '--by', 'alice', ...brokers)
    page = (await openPage(chrome, running.url)).page
    await page.getByRole('heading', { name: 'needs you' }).waitFor()
    await page.getByRole('navigation').getByRole('link', { name: 'Dead letters' }).click()
    await page.getByRole('link', { name: 'order-1' }).waitFor()
  }

  const audit = async (): Promise<readonly unknown[]> =>
    (await at.pool.query('select who, action from onceward.audit order by id')).rows

  const received = async (): Promise<readonly string[]> => {
    const request = { QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }
    const { Messages = [] } = await client.send(new ReceiveMessageCommand(request))
    return Messages.map(({ Body = '' }) => Body).sort()
  }

  test('sends buried events and refused messages back to their queue, after a question with counts', async () => {
    await die()
    await open(queueUrl)
    await page.getByRole('button', { name: 'Requeue all 2 that match' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('orders fatal: 1').waitFor()
    await dialog.getByText('the queue that it came from (SQS)').waitFor()
    await page.keyboard.press('Escape')
    expect(await audit()).toEqual([])
    await page.getByRole('button', { name: 'Requeue all 2 that match' }).click()
    await dialog.getByRole('button', { name: 'Requeue 2' }).click()
    await page.getByRole('status').getByText('2 dead letters sent back.').waitFor()
    await page.getByText('Nothing is dead.').waitFor()
    expect(await received()).toEqual(['{', '{"id":"order-1"}'])
    const by = (action: string) => ({ who: 'alice', action })
    expect(await audit()).toEqual(['requeue', 'requeued', 'requeue', 'requeued'].map(by))
  })

  test('says why one is left as it is, and sends nothing', async () => {
    await die()
    await open('https://sqs.eu-west-1.amazonaws.com/123456789012/another')
    await page.getByRole('link', { name: 'order-1' }).click()
    await page.getByRole('heading', { name: 'Dead letter order-1' }).waitFor()
    await page.getByRole('button', { name: 'Requeue' }).click()
    await page.getByRole('button', { name: 'Requeue 1' }).click()
    await page
      .getByRole('status')
      .getByText(/^0 dead letters sent back\. .* a queue that no --broker of the console names\.$/)
      .waitFor()
    expect(await audit()).toEqual([])
  })

  test('shows a requeue that was not confirmed, and finds refused messages alone', async () => {
    await die()
    await at.pool.query('update onceward.refused_messages set replay = true, parked = false')
    await open(queueUrl)
    await page.getByLabel('Kind').selectOption('refused')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('link', { name: 'order-1' }).waitFor({ state: 'hidden' })
    await page.getByText('invalid-payload (requeue not confirmed)').waitFor()
    await page.getByRole('link', { name: '(no key)' }).click()
    await page.getByText('not confirmed; a copy may be in its queue').waitFor()
  })

  test('replay and requeue cannot be pressed where the message is not stored', async () => {
    await die()
    await open()
    await page.getByRole('link', { name: 'order-1' }).click()
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    for (const name of ['Replay', 'Requeue', 'Discard']) {
      await button(name).waitFor()
      expect(await button(name).isEnabled(), name).toBe(true)
    }
    await at.pool.query('update onceward.failed_events set body_bytes = 2000000000')
    await page.reload()
    await button('Discard').waitFor()
    expect(await button('Discard').isEnabled()).toBe(true)
    for (const name of ['Replay', 'Requeue']) expect(await button(name).isEnabled()).toBe(false)
  })

  test('without --broker requeue says how to start the console, and changes nothing', async () => {
    await die()
    await open()
    await page.getByRole('button', { name: 'Requeue all 2 that match' }).click()
    await page.getByRole('dialog').getByText('npx onceward console --allow-changes').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    expect(await audit()).toEqual([])
  })

  test('tells what was done before the broker refused the rest', async () => {
    await die()
    const gone = queueUrl.replace('orders-', 'gone-')
    await at.pool.query('update onceward.refused_messages set source = replace(source, $1, $2)', [
      ...[queueUrl, gone],
    ])
    await open(queueUrl, gone)
    await page.getByRole('button', { name: 'Requeue all 2 that match' }).click()
    await page.getByRole('button', { name: 'Requeue 2' }).click()
    await page
      .getByRole('status')
      .getByText(/^1 dead letter sent back\. Then it failed: .*gone-/)
      .waitFor()
    await page.locator('main').getByText('orders invalid-payload: 1').waitFor()
    expect(await received()).toEqual(['{"id":"order-1"}'])
  })
})

test.each([
  [['--broker', 'amqp://localhost'], /--allow-changes too/],
  [['--allow-changes', '--broker', 'stomp://localhost'], /Expected --broker/],
  [['--allow-changes', '--broker', 'https://localhost'], /Expected the URL of a queue/],
])('console %j is refused at its start', async (args, text) => {
  const ended = await cli(['console', '--port', '0', '--url', 'postgres://h/d', ...args])
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(text) })
})
