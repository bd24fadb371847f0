import { Clock, turn } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { pulled } from '../fixtures/hand-made-api.ts'
import { Pulls } from './pulls.ts'

type Callback = (error: Error | null, message?: object) => void

const SUBJECT = '$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing'

function setUp() {
  const clock = new Clock()
  const asked: { readonly batch: number; readonly reply: string }[] = []
  const subscribed: string[] = []
  let callback: Callback = () => undefined
  const client = {
    subscribe: (subject: string, options: { callback: Callback }) => {
      subscribed.push(subject)
      callback = options.callback
      let isClosed = false
      return { isClosed: () => isClosed, unsubscribe: () => (isClosed = true) }
    },
    publish: (subject: string, payload: string, { reply }: { reply: string }) => {
      expect(subject).toBe(SUBJECT)
      asked.push({ ...JSON.parse(payload), reply })
    },
  }
  const pulls = new Pulls(client as never, clock.runtime, SUBJECT)
  return {
    ...{ clock, asked, subscribed, pulls },
    pull: (batch = 3) => pulls.pull({ batch, expiresMs: 1_000 }),
    come: (...sequences: number[]) => {
      for (const sequence of sequences) callback(null, pulled({ sequence }))
    },
    end: (code: number, description = '', request = asked.at(-1)) =>
      callback(null, { subject: request?.reply, headers: { code, description } }),
    fail: (error: Error) => callback(error),
  }
}

const sequences = async (pulling: ReturnType<Pulls['pull']>): Promise<readonly number[]> =>
  (await pulling).messages.map(({ info }) => info.streamSequence)

test('a request asks for what is there, or for a first message, and ends when it is full', async () => {
  const { asked, clock, come, pull } = setUp()
  const pulling = pull(2)
  expect(asked).toMatchObject([{ batch: 2, expires: 1e9, no_wait: true }])
  come(1, 2)
  expect(await sequences(pulling)).toEqual([1, 2])
  expect(clock.timers).toBe(0)
})

// 404: NATS 2.10 and newer have no more messages. 408: the time of older ones is over, or others wait too.
test.each([404, 408])('a request that the server ends with %i has what came', async (code) => {
  const { come, end, pull } = setUp()
  const pulling = pull()
  come(1)
  end(code)
  expect(await sequences(pulling)).toEqual([1])
  const empty = pull()
  end(code)
  expect(await sequences(empty)).toEqual([])
})

test.each([
  [409, 'consumer deleted', /consumer deleted \(409\)/],
  [503, '', /no consumer answers \(503\)/],
  [400, 'bad request', /bad request/],
])(
  'the status %i fails a request that brought nothing, and no other',
  async (code, text, error) => {
    const { come, end, pull } = setUp()
    const failing = pull()
    end(code, text)
    await expect(failing).rejects.toThrow(error)
    const pulling = pull()
    come(1)
    end(code, text)
    expect(await sequences(pulling)).toEqual([1])
  },
)

test('a status of a request that is over changes nothing', async () => {
  const { asked, come, end, pull } = setUp()
  const first = pull(1)
  come(1)
  await first
  const second = pull()
  end(409, 'consumer deleted', asked[0])
  come(2)
  end(404)
  expect(await sequences(second)).toEqual([2])
})

// As at the limit of `max_ack_pending`, of which older servers say nothing.
test('messages are handed over when no more come, and what comes after all is in the next answer', async () => {
  const { asked, clock, come, pull } = setUp()
  const pulling = pull()
  come(1)
  await clock.advance(90)
  come(2)
  await clock.advance(300)
  const { sentAtMs } = await pulling
  expect(await sequences(pulling)).toEqual([1, 2])
  come(3)
  const next = pull()
  // They are this consumer's for no longer than the first ones.
  expect((await next).sentAtMs).toBe(sentAtMs)
  expect(await sequences(next)).toEqual([3])
  expect(asked).toHaveLength(1)
})

test('a request without an answer fails, and what comes for it later is not taken for a later one', async () => {
  const { clock, pull, subscribed } = setUp()
  const pulling = pull()
  const failed = expect(pulling).rejects.toThrow('got no answer within 3000 ms')
  await clock.advance(3_000)
  await failed
  void pull()
  expect(new Set(subscribed).size).toBe(2)
})

test.each(['interrupted', 'refused'] as const)(
  'a connection that is %s fails the request under way, and one of another subject does not',
  async (how) => {
    const { pull, pulls } = setUp()
    const error = Object.assign(new Error(how), { subject: SUBJECT })
    const pulling = pull()
    pulls.refused(Object.assign(new Error('other'), { subject: 'other' }))
    if (how === 'refused') pulls.refused(error)
    else pulls.interrupt(error)
    await expect(pulling).rejects.toBe(error)
    await turn()
  },
)

test('a subscription that is refused fails the request under way', async () => {
  const { fail, pull } = setUp()
  const pulling = pull()
  fail(new Error('permissions violation'))
  await expect(pulling).rejects.toThrow('permissions violation')
})
