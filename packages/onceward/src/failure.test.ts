import { expect, test } from 'vitest'
import { withoutSecrets } from './failure.ts'

test.each([
  ['postgres://alice:s3cret@host/db', 'password s3cret is wrong', 'password *** is wrong'],
  ['postgres://alice:p%40ss@host/db', 'p@ss and p%40ss', '*** and ***'],
  ['postgres://host/db?user=a&password=s3cret&ssl=true', 's3cret', '***'],
  ['redis://:hunter2@host', 'AUTH hunter2', 'AUTH ***'],
  ['postgres://alice@host/db', 'alice at host', 'alice at host'],
])('the password of %s is never repeated', (url, text, shown) => {
  expect(withoutSecrets(text, [url])).toBe(shown)
})
