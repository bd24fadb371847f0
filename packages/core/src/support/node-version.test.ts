import { afterEach, expect, it, vi } from 'vitest'

afterEach(() => vi.unstubAllGlobals())

async function importedIn(process: unknown): Promise<string> {
  vi.stubGlobal('process', process)
  vi.resetModules()
  try {
    await import('./node-version.ts')
    return ''
  } catch (error) {
    return (error as Error).message
  }
}

it('an import in an older Node says which version is needed', async () => {
  expect(await importedIn({ versions: { node: '20.20.2' } })).toBe(
    'onceward needs Node 22 or newer, and this is Node 20.20.2: run it with a newer Node.',
  )
})

it.each([{ versions: { node: '22.0.0' } }, { versions: { node: '100.1.0' } }, { versions: {} }])(
  'an import is refused nowhere else: %j',
  async (process) => {
    expect(await importedIn(process)).toBe('')
  },
)
