// Declares the operator section of the configuration: the operator API beyond its socket.
import { flag, group, integer, text, texts } from '../../base/fields.ts'

export const operatorSection = group(
  'The operator API on a port, besides <data>/operator-http.sock, which every server has.',
  {
    enabled: flag({ initial: false, doc: 'Opens the port; its callers need a credential.' }),
    host: text({
      initial: '127.0.0.1',
      doc: 'Address to listen on; beyond loopback tls.cert is required.',
    }),
    port: integer({ initial: 8444, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
    names: texts({
      initial: [],
      doc: 'Host names that requests may address, besides localhost and the address itself.',
      check: (value) =>
        /^[a-z0-9.-]{1,253}$/i.test(value) ? undefined : `${value} is not a host name`,
    }),
  },
)
