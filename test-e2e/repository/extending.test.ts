import { expect, it } from 'vitest'
import { missingIn } from './named-in-docs.ts'

it('docs/extending.md names only files and exported names that exist', () => {
  expect(missingIn('docs/extending.md')).toEqual([])
})
