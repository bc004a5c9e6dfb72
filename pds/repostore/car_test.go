package repostore

import (
	"bytes"
	"testing"

	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	"github.com/ipld/go-car"
	carutil "github.com/ipld/go-car/util"
	"github.com/stretchr/testify/require"
)

func carBlock(t *testing.T, b block) blocks.Block {
	t.Helper()
	made, err := blocks.NewBlockWithCid(b.raw, b.cid)
	require.NoError(t, err)
	return made
}

// Our CAR is byte for byte what go-car writes.
func TestCARIsTheOneOfGoCar(t *testing.T) {
	raw := bytes.Repeat([]byte{0x61}, 300)
	root := dagCBOR(raw)
	var want bytes.Buffer
	require.NoError(t, car.WriteHeader(&car.CarHeader{Roots: []cid.Cid{root}, Version: 1}, &want))
	require.NoError(t, carutil.LdWrite(&want, root.Bytes(), raw))
	require.Equal(t, want.Bytes(), appendCARBlock(appendCARHeader(nil, root), root, raw))
	streamed := bytes.NewBuffer(appendCARHeader(nil, root))
	require.NoError(t, writeCARBlock(streamed, root.Bytes(), raw))
	require.Equal(t, want.Bytes(), streamed.Bytes())
}
