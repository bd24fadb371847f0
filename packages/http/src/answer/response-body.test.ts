import { expect, test, vi } from 'vitest'
import { readBuffered } from './response-body.ts'

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values)

type After = ((controller: ReadableStreamDefaultController) => unknown) | undefined

/** A body that gives the pieces and then does what `after` says. */
const responseOf = (
  pieces: readonly unknown[],
  after: (controller: ReadableStreamDefaultController) => unknown = (each) => each.close(),
  cancel: () => void | Promise<void> = () => undefined,
): Response => {
  const left = [...pieces]
  const pull = (controller: ReadableStreamDefaultController): unknown =>
    left.length > 0 ? controller.enqueue(left.shift()) : after(controller)
  return new Response(
    new ReadableStream({ pull: (controller) => pull(controller) as Promise<void>, cancel }),
  )
}

test('a body in memory is read as a whole, up to the limit', async () => {
  const response = responseOf([bytes(1, 2), bytes(3)])
  expect(await readBuffered(response, 3)).toEqual({ kind: 'body', bytes: bytes(1, 2, 3) })
  expect(await readBuffered(new Response(null), 3)).toEqual({ kind: 'body', bytes: bytes() })
})

test('a body whose source takes a few turns is in memory', async () => {
  let turns = 20
  const response = responseOf([bytes(1)], async (controller) => {
    while (turns-- > 0) await new Promise((resolve) => setImmediate(resolve))
    controller.close()
  })
  expect(await readBuffered(response, 3)).toEqual({ kind: 'body', bytes: bytes(1) })
})

test.each<readonly [kind: string, pieces: unknown[], after: After]>([
  ['stream', [bytes(1)], () => new Promise(() => undefined)],
  ['large', [bytes(1, 2), bytes(3, 4), bytes(5), bytes(6)], undefined],
  ['failed', ['a text', bytes(1), bytes(2)], undefined],
])('a body that is refused is cancelled: %s', async (kind, pieces, after) => {
  const cancel = vi.fn(async () => {
    throw new Error('no')
  })
  expect(await readBuffered(responseOf(pieces, after, cancel), 3)).toEqual({ kind })
  await vi.waitFor(() => expect(cancel).toHaveBeenCalledTimes(1))
})

test('a body that fails is told from one that was used or is being read', async () => {
  const failing = responseOf([bytes(1)], (each) => each.error(new Error('no')))
  expect(await readBuffered(failing, 3)).toEqual({ kind: 'failed' })
  const [used, locked] = [new Response('abc'), new Response('abc')]
  await used.text()
  locked.body?.getReader()
  for (const each of [used, locked]) expect(await readBuffered(each, 3)).toEqual({ kind: 'used' })
})

test('a body that has come leaves no turns of the event loop to wait for', async () => {
  const setImmediateSpy = vi.spyOn(globalThis, 'setImmediate')
  await readBuffered(new Response('abc'), 3)
  const { length } = setImmediateSpy.mock.calls
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setTimeout(resolve))
  expect(setImmediateSpy.mock.calls.length).toBeLessThanOrEqual(length + 2)
  setImmediateSpy.mockRestore()
})
