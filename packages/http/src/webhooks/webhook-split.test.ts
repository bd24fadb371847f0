import { memoryInbox } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { createWebhookGuard } from './webhook-guard.ts'

interface Item {
  readonly sg_event_id?: string
  readonly fails?: boolean
}

const noop = (): void => undefined
const logger = { debug: noop, info: noop, warn: noop, error: noop }

function setUp(given: object = {}) {
  const ran: string[] = []
  const inbox = memoryInbox()
  let isMended = false
  const options = {
    ...{ consumer: 'mails', inbox, logger },
    verify: () => ({ kind: 'verified', eventId: undefined }) as const,
    split: ({ payload }: { payload: unknown }) => payload as Item[],
    eventKey: ({ payload }: { payload: unknown }) => (payload as Item).sg_event_id,
    ...given,
  }
  const guard = createWebhookGuard(options, async ({ key, payload, request }) => {
    ran.push(`${key} ${request.method}`)
    if ((payload as Item).fails === true && !isMended) throw new Error('not yet')
  })
  const post = async (...items: Item[]): Promise<number> => {
    const request = new Request('http://localhost/', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(items),
    })
    return (await guard.fetch(request)).status
  }
  const mend = (): void => {
    isMended = true
  }
  return { guard, inbox, mend, post, ran }
}

const item = (id: string, more: object = {}): Item => ({ sg_event_id: id, ...more })

test('a delivery with several events is answered 200 when each is done, and only the others run again', async () => {
  const { guard, mend, post, ran } = setUp()
  expect(await post(item('a'), item('b', { fails: true }), item('c'))).toBe(500)
  expect(ran.splice(0).toSorted()).toEqual(['a POST', 'b POST', 'c POST'])
  mend()
  expect(await post(item('a'), item('b', { fails: true }), item('c'))).toBe(200)
  expect(await post(item('c'), item('d'))).toBe(200)
  expect(ran).toEqual(['b POST', 'd POST'])
  await guard.close()
})

test('an item without an id is recorded, and the others are done', async () => {
  const { guard, inbox, post, ran } = setUp()
  expect(await post(item('a'), {})).toBe(200)
  expect(ran).toEqual(['a POST'])
  const bodies = inbox.deadLetters().map(({ delivery: { body } }) => Buffer.from(body).toString())
  expect(bodies).toEqual(['{}'])
  await guard.close()
})

test('the items of a delivery that runs later are events of their own', async () => {
  const { guard, post, ran } = setUp({ run: 'later' })
  expect(await post(item('a'), item('b'))).toBe(202)
  expect(await post(item('b'), item('c'))).toBe(202)
  await expect.poll(() => ran.toSorted()).toEqual(['a POST', 'b POST', 'c POST'])
  await guard.close()
})

test('split needs the key of an item, and eventKey needs split', () => {
  expect(() => setUp({ eventKey: undefined })).toThrow(/`eventKey`/)
  expect(() => setUp({ split: undefined })).toThrow(/no `eventKey` without `split`/)
})
