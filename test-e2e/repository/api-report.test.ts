import { describe, expect, it } from 'vitest'
import { differences } from '../../scripts/api-differences.ts'

describe('the report of the public surface', () => {
  const before = new Map([['core.api.md', 'export function a(): void;\nexport type B = 1;']])

  it('agrees with the surface that it was made of', () => {
    expect(differences(before, new Map(before))).toBe('')
  })

  it.each([
    ['an added export', 'core.api.md', 'export function a(): void;\n+export type C = 1;'],
    ['a removed export', 'core.api.md', '-export function a(): void;'],
    ['an entry without a report', 'core-new.api.md', '+export type C = 1;'],
  ])('goes red for %s, shows its lines and says what to run', (_what, file, lines) => {
    const text = lines.replaceAll(/^-.*\n?/gm, '').replaceAll(/^\+/gm, '')
    const answer = differences(before, new Map([[file, text]]))
    expect(answer).toContain(`api/${file}`)
    for (const line of lines.match(/^[-+].*/gm) ?? []) expect(answer).toContain(line)
    expect(answer).toContain('npm run api')
  })
})
